import { readFileSync } from "node:fs";

/** Time of some CPUs in ticks, and the part of it that the hypervisor gave to others. */
export interface CpuTicks {
  readonly all: number;
  readonly steal: number;
}

export const NO_TICKS: CpuTicks = { all: 0, steal: 0 };

/** Of these CPUs together, or of all where one of them is not told of; undefined where there is no /proc/stat. */
export function readCpuTicks(cpus: readonly number[], file = "/proc/stat"): CpuTicks | undefined {
  let text: string;
  try {
    text = readFileSync(file, "latin1");
  } catch {
    return undefined;
  }
  let sum = NO_TICKS;
  for (const cpu of cpus) {
    const ticks = ticksOf(text, `cpu${cpu}`);
    if (ticks === undefined) return ticksOf(text, "cpu");
    sum = plus(sum, ticks);
  }
  return sum;
}

function ticksOf(text: string, name: string): CpuTicks | undefined {
  const line = new RegExp(`^${name} +(.*)$`, "m").exec(text)?.[1];
  if (line === undefined) return undefined;
  // user nice system idle iowait irq softirq steal; the guest times after them are in user and nice already.
  const ticks = line.split(" ").slice(0, 8).map(Number);
  return { all: ticks.reduce((sum, value) => sum + value, 0), steal: ticks[7] ?? 0 };
}

function plus(a: CpuTicks, b: CpuTicks): CpuTicks {
  return { all: a.all + b.all, steal: a.steal + b.steal };
}

/** `sum` and what passed between two readings, if both are there. */
export function addTicks(sum: CpuTicks, before: CpuTicks | undefined, after: CpuTicks | undefined): CpuTicks {
  if (before === undefined || after === undefined || after.all <= before.all) return sum;
  return plus(sum, { all: after.all - before.all, steal: after.steal - before.steal });
}

/** Undefined if no time is known of. */
export function stealFraction({ all, steal }: CpuTicks): number | undefined {
  return all === 0 ? undefined : steal / all;
}
