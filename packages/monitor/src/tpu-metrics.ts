import type { LineCommand } from "./line-source.ts";

/** Of one TPU chip at one moment. */
export interface TpuReading {
  readonly chip: number;
  readonly dutyCyclePercent?: number;
  readonly memoryBytes?: number;
}

/** Asks libtpu's monitoring once a reading; values come as lists of text, one a chip. */
const SCRIPT = `
import json, sys, time
from libtpu.sdk import tpumonitoring as m
while True:
    print(json.dumps({n: list(m.get_metric(n).data()) for n in ("duty_cycle_pct", "hbm_capacity_usage")}), flush=True)
    time.sleep(float(sys.argv[1]))
`;

/**
 * Prints a line of JSON every `intervalMs`, for as long as it runs, if `python` has libtpu with `libtpu.sdk`. Written by its
 * documentation: not yet run on a TPU.
 */
export function tpuMetricsCommand(intervalMs: number, python: string): LineCommand {
  return { file: python, args: ["-c", SCRIPT, String(intervalMs / 1000)] };
}

/** A line of {@link tpuMetricsCommand}; empty if it is none. */
export function parseTpuLine(line: string): TpuReading[] {
  let metrics: Readonly<Record<string, readonly unknown[]>>;
  try {
    metrics = JSON.parse(line) as typeof metrics;
  } catch {
    return [];
  }
  const duty = metrics["duty_cycle_pct"] ?? [];
  const memory = metrics["hbm_capacity_usage"] ?? [];
  return Array.from({ length: Math.max(duty.length, memory.length) }, (_, chip) => {
    const [dutyCyclePercent, memoryBytes] = [Number(duty[chip]), Number(memory[chip])];
    return {
      chip,
      ...(Number.isFinite(dutyCyclePercent) ? { dutyCyclePercent } : {}),
      ...(Number.isFinite(memoryBytes) ? { memoryBytes } : {}),
    };
  });
}
