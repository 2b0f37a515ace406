import type { LoadResult } from "@dlrm/loadgen";
import type { MonitorResult } from "@dlrm/monitor";

/** A load result of one second at 1,000 examples/s. */
export function fakeLoad(changes: Partial<LoadResult> = {}): LoadResult {
  const examples = changes.examples ?? 1000;
  const latency = {
    count: examples,
    p50Ms: 1,
    p90Ms: 1.5,
    p99Ms: 2,
    p999Ms: 3,
    maxMs: 4,
    meanMs: 1.1,
    histogram: "",
  };
  const result = {
    requests: examples,
    examples,
    elapsedS: 1,
    examplesPerS: examples,
    requestsPerS: examples,
    latency,
    latencyFromSend: latency,
    sendLag: { p50Ms: 0, p99Ms: 0, maxMs: 0 },
    errors: {},
    clientCpuMicros: 1000,
    clientCpuFraction: 0.1,
    measuredFromNs: 1e9,
    measuredToNs: 2e9,
    ...changes,
  };
  return result as unknown as LoadResult;
}

/** A monitor result with samples of `[time in ns, CPU time in µs]`. */
export function fakeMonitor(samples: readonly (readonly [number, number])[]): MonitorResult {
  const result = {
    samples: samples.map(([timeNs, cpuMicros]) => ({ timeNs, cpuMicros })),
    peakRssBytes: 2 ** 20,
    peakPssBytes: 2 ** 19,
    cpuMicros: samples.at(-1)?.[1] ?? 0,
  };
  return result as unknown as MonitorResult;
}
