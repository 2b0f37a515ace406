import type { LatencySummary } from "./load-result.ts";
import type { FilledLoadOptions } from "./load-options.ts";

/** MLPerf's bound on the 99th percentile of latency in the Server scenario of DLRM-DCNv2, milliseconds. */
export const MLPERF_SERVER_P99_MS = 60;

/** Whether a run in the form of MLPerf's Server scenario meets its bound. It is no MLPerf result. */
export interface ScenarioOutcome {
  readonly name: "mlperf-server";
  readonly p99BoundMs: number;
  readonly p99Ms: number;
  /** What is counted in MLPerf's samples: groups of 100 to 700 user-item pairs. */
  readonly samplesPerS: number;
  readonly passed: boolean;
  /** Why not. */
  readonly reason?: string;
}

/** Undefined for a run that is not in the form of the scenario: Poisson arrivals of MLPerf's sample sizes. */
export function scenarioOutcome(
  { mode, requestSize }: Pick<FilledLoadOptions, "mode" | "requestSize">,
  run: { readonly latency: LatencySummary; readonly requestsPerS: number; readonly valid: boolean },
): ScenarioOutcome | undefined {
  if (requestSize !== "mlperf" || mode.kind !== "open") return undefined;
  const { p99Ms } = run.latency;
  const reason = reasonOf(p99Ms, run);
  return {
    name: "mlperf-server",
    p99BoundMs: MLPERF_SERVER_P99_MS,
    p99Ms,
    samplesPerS: run.requestsPerS,
    passed: reason === undefined,
    ...(reason === undefined ? {} : { reason }),
  };
}

function reasonOf(
  p99Ms: number,
  run: { readonly latency: LatencySummary; readonly valid: boolean },
): string | undefined {
  if (!run.valid) return "the run is INVALID";
  if (p99Ms <= MLPERF_SERVER_P99_MS) return undefined;
  return `p99 ${p99Ms.toFixed(1)} ms is over ${MLPERF_SERVER_P99_MS} ms: offer a lower rate`;
}
