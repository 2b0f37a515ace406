import { formatNumber, formatPercent } from "./format.ts";
import { range } from "./statistics.ts";
import type { Summary, SummaryEnvironment, SummarySettings } from "./summary.ts";

const MAX_LOAD_PER_CPU = 0.5;
const MAX_STEAL_FRACTION = 0.02;
const MAX_SPREAD = 0.1;

/** Signs that other work on the machine took part in the results; empty is what should be. */
export function noiseEvidence({ environment, settings, points }: Summary): string[] {
  const evidence: string[] = [];
  const { loadAverageBefore, stealFraction } = environment;
  if (loadAverageBefore !== undefined && loadAverageBefore > MAX_LOAD_PER_CPU * cpusOf(environment, settings)) {
    evidence.push(`the load average was ${formatNumber(loadAverageBefore)} before the first step`);
  }
  if (stealFraction !== undefined && stealFraction > MAX_STEAL_FRACTION) {
    evidence.push(`the hypervisor took ${formatPercent(stealFraction)} of the CPU time`);
  }
  const spread = points.filter((point) => {
    const values = range(point.repeats.map((repeat) => repeat.examplesPerS));
    return values !== null && values.max - values.min > 2 * MAX_SPREAD * point.examplesPerS;
  });
  if (spread.length > 0) {
    evidence.push(`repeats of ${spread.length} of ${points.length} points differ by more than ±${MAX_SPREAD * 100} %`);
  }
  return evidence;
}

/** CPUs that the run was held to, of which the machine may have many more; all of the machine where that is not known. */
function cpusOf({ cpuCount }: SummaryEnvironment, { serverCpus, clientCpus }: SummarySettings): number {
  const held = new Set([...cpuList(serverCpus), ...cpuList(clientCpus)]);
  return held.size === 0 ? (cpuCount ?? 1) : Math.min(held.size, cpuCount ?? held.size);
}

/** `0-2,8` is 0, 1, 2 and 8; nothing for anything else. */
function cpuList(text: unknown): number[] {
  if (typeof text !== "string" || !/^\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*$/.test(text)) return [];
  return text.split(",").flatMap((part) => {
    const [from = 0, to = from] = part.split("-").map(Number);
    return Array.from({ length: Math.max(0, to - from + 1) }, (_, index) => from + index);
  });
}
