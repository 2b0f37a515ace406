import type { LoadProgress } from "./load-progress.ts";

/** One line that says where a run is: phase, rate, latency, errors, time left. */
export function formatProgress(progress: LoadProgress): string {
  const parts = [
    progress.phase.padEnd(9),
    `${formatRate(progress.requestsPerS)} req/s`,
    `${formatRate(progress.examplesPerS)} examples/s`,
    `p50 ${formatMs(progress.p50Ms)}`,
    `p99 ${formatMs(progress.p99Ms)}`,
    `${progress.errors} errors`,
    `${Math.ceil(progress.leftS)} s left`,
  ];
  return parts.join("  ");
}

/** A latency with three digits and its unit; `-` where there is none. */
export function formatMs(ms: number | undefined): string {
  if (ms === undefined) return "-";
  return ms < 1 ? `${Math.round(ms * 1000)} µs` : `${Number(ms.toPrecision(3))} ms`;
}

function formatRate(perS: number): string {
  return Math.round(perS).toLocaleString("en-US");
}
