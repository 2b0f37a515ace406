import { median } from "./statistics.ts";
import type { Point, PointRepeat } from "./summary.ts";

/** What tells one point from another. */
export type PointKey = Pick<Point, "arm" | "bReq" | "mode" | "concurrency" | "offeredRps" | "peakFraction">;

/** Over this share of its CPUs, the load generator is taken for the limit. */
export const CLIENT_BOUND_CPU_FRACTION = 0.85;
/** Over this p99 of late sends, too. */
export const CLIENT_BOUND_SEND_LAG_MS = 5;

export function isClientBound(clientCpuFraction: number | null, sendLagP99Ms: number | null): boolean {
  return (clientCpuFraction ?? 0) > CLIENT_BOUND_CPU_FRACTION || (sendLagP99Ms ?? 0) > CLIENT_BOUND_SEND_LAG_MS;
}

/**
 * Joins the repeats of a point: medians of values, errors summed, client-bound if at least half of the repeats were.
 *
 * @throws RangeError without any repeat.
 */
export function pointOf(key: PointKey, repeats: readonly PointRepeat[]): Point {
  const examplesPerS = median(repeats.map((repeat) => repeat.examplesPerS));
  if (examplesPerS === null) throw new RangeError(`point of ${key.arm}: expected at least 1 repeat, got 0`);
  const errors: Record<string, number> = {};
  for (const repeat of repeats) {
    for (const [code, count] of Object.entries(repeat.errors)) errors[code] = (errors[code] ?? 0) + count;
  }
  const gauges = medianGauges(repeats);
  return {
    arm: key.arm,
    bReq: key.bReq,
    mode: key.mode,
    concurrency: key.concurrency,
    offeredRps: key.offeredRps,
    ...(key.peakFraction === undefined ? {} : { peakFraction: key.peakFraction }),
    examplesPerS,
    p50Ms: median(repeats.map((repeat) => repeat.p50Ms)),
    p99Ms: median(repeats.map((repeat) => repeat.p99Ms)),
    ...(key.mode === "closed" ? {} : openLoopValues(repeats)),
    errors,
    serverCpuMicrosPerExample: median(repeats.map((repeat) => repeat.serverCpuMicrosPerExample)),
    serverPeakRssBytes: median(repeats.map((repeat) => repeat.serverPeakRssBytes)),
    serverPeakPssBytes: median(repeats.map((repeat) => repeat.serverPeakPssBytes)),
    clientCpuFraction: median(repeats.map((repeat) => repeat.clientCpuFraction)),
    clientBound: repeats.filter((repeat) => repeat.clientBound).length * 2 >= repeats.length,
    ...(gauges === undefined ? {} : { gauges }),
    repeats,
  };
}

/** By name, over the repeats that have it; undefined if none has any. */
function medianGauges(repeats: readonly PointRepeat[]): Record<string, number> | undefined {
  const names = new Set(repeats.flatMap((repeat) => Object.keys(repeat.gauges ?? {})));
  if (names.size === 0) return undefined;
  return Object.fromEntries(
    [...names].map((name) => [name, median(repeats.map((repeat) => repeat.gauges?.[name])) ?? 0]),
  );
}

/** Fields that no repeat has are left out. */
function openLoopValues(
  repeats: readonly PointRepeat[],
): Pick<Point, "p50FromSendMs" | "p99FromSendMs" | "dropped" | "late"> {
  const has = (field: keyof PointRepeat): boolean => repeats.some((repeat) => repeat[field] !== undefined);
  const sum = (field: "dropped" | "late"): number => repeats.reduce((all, repeat) => all + (repeat[field] ?? 0), 0);
  return {
    ...(has("p50FromSendMs") ? { p50FromSendMs: median(repeats.map((repeat) => repeat.p50FromSendMs)) } : {}),
    ...(has("p99FromSendMs") ? { p99FromSendMs: median(repeats.map((repeat) => repeat.p99FromSendMs)) } : {}),
    ...(has("dropped") ? { dropped: sum("dropped") } : {}),
    ...(has("late") ? { late: sum("late") } : {}),
  };
}

/** What tells against a point: with any of these it wins no comparison. Dropped sends are in no percentile. */
export type PointFlaw = "failed parity" | "client-bound" | "errors" | "sends dropped";

/** @param failedParity arms that failed parity, `armsThatFailedParity` of the run. */
export function flawsOf(
  point: Pick<Point, "arm" | "clientBound" | "errors" | "dropped">,
  failedParity: ReadonlySet<string>,
): PointFlaw[] {
  return [
    ...(failedParity.has(point.arm) ? (["failed parity"] as const) : []),
    ...(point.clientBound ? (["client-bound"] as const) : []),
    ...(errorCount(point) > 0 ? (["errors"] as const) : []),
    ...((point.dropped ?? 0) > 0 ? (["sends dropped"] as const) : []),
  ];
}

export function errorCount(point: Pick<Point, "errors">): number {
  return Object.values(point.errors).reduce((sum, count) => sum + count, 0);
}
