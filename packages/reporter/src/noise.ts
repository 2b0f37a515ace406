import { formatNumber, formatPercent } from "./format.ts";
import { range } from "./statistics.ts";
import type { Summary } from "./summary.ts";

const MAX_LOAD_PER_CPU = 0.5;
const MAX_STEAL_FRACTION = 0.02;
const MAX_SPREAD = 0.1;

/** Signs that other work on the machine took part in the results; empty is what should be. */
export function noiseEvidence({ environment, points }: Summary): string[] {
  const evidence: string[] = [];
  const { loadAverageBefore, cpuCount, stealFraction } = environment;
  if (loadAverageBefore !== undefined && loadAverageBefore > MAX_LOAD_PER_CPU * (cpuCount ?? 1)) {
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
