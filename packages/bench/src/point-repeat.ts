import type { LoadResult } from "@dlrm/loadgen";
import type { MonitorResult } from "@dlrm/monitor";
import { isClientBound, type PointRepeat } from "@dlrm/reporter";

export interface Measurement {
  readonly load: LoadResult;
  /** Of the server's process tree and of the load generator's, warm-up included; undefined where it could not be read. */
  readonly server: MonitorResult | undefined;
  readonly client: MonitorResult | undefined;
  /** Threads of the load generator that may run elsewhere than they should. */
  readonly strays: readonly string[];
}

type Sample = MonitorResult["samples"][number];

/**
 * CPU time between two moments, interpolated between the samples around them; null where samples don't reach that far.
 */
export function cpuMicrosBetween(
  samples: readonly Pick<Sample, "timeNs" | "cpuMicros">[],
  fromNs: number,
  toNs: number,
): number | null {
  const from = cpuMicrosAt(samples, fromNs);
  const to = cpuMicrosAt(samples, toNs);
  return from === null || to === null ? null : to - from;
}

function cpuMicrosAt(samples: readonly Pick<Sample, "timeNs" | "cpuMicros">[], timeNs: number): number | null {
  let before: Pick<Sample, "timeNs" | "cpuMicros"> | undefined;
  for (const sample of samples) {
    const sampleNs = sample.timeNs;
    if (sampleNs === timeNs) return sample.cpuMicros;
    if (sampleNs > timeNs) {
      if (before === undefined) return null;
      const beforeNs = before.timeNs;
      const share = (timeNs - beforeNs) / (sampleNs - beforeNs);
      return before.cpuMicros + share * (sample.cpuMicros - before.cpuMicros);
    }
    before = sample;
  }
  return null;
}

/**
 * What the accelerator's gauges showed between two moments, means by name; undefined if there are no gauges. A value that was
 * not told at some sample does not count there.
 */
export function meanGauges(
  samples: readonly Pick<Sample, "timeNs" | "gauges">[],
  fromNs: number,
  toNs: number,
): Record<string, number> | undefined {
  const sums = new Map<string, { sum: number; count: number }>();
  for (const { timeNs, gauges } of samples) {
    if (gauges === undefined || timeNs < fromNs || timeNs > toNs) continue;
    for (const [name, value] of Object.entries(gauges)) {
      const { sum, count } = sums.get(name) ?? { sum: 0, count: 0 };
      sums.set(name, { sum: sum + value, count: count + 1 });
    }
  }
  if (sums.size === 0) return undefined;
  return Object.fromEntries([...sums].map(([name, { sum, count }]) => [name, sum / count]));
}

/** One repeat of a point, as the summary has it. */
export function repeatOf(repeat: number, { load, server }: Measurement, mode: "closed" | "open"): PointRepeat {
  const open = mode === "open";
  const answered = load.examples > 0;
  const timed = load.latency.count > 0;
  const cpuMicros =
    server === undefined ? null : cpuMicrosBetween(server.samples, load.measuredFromNs, load.measuredToNs);
  const gauges = server === undefined ? undefined : meanGauges(server.samples, load.measuredFromNs, load.measuredToNs);
  const sendLagP99Ms = finite(load.sendLag.p99Ms);
  const clientCpuFraction = finite(load.clientCpuFraction);
  const ifTimed = (value: number): number | null => (timed ? finite(value) : null);
  return {
    repeat,
    examplesPerS: load.examplesPerS,
    p50Ms: ifTimed(load.latency.p50Ms),
    p99Ms: ifTimed(load.latency.p99Ms),
    errors: Object.fromEntries(Object.entries(load.errors).filter(([, count]) => count > 0)),
    serverCpuMicrosPerExample: answered && cpuMicros !== null ? cpuMicros / load.examples : null,
    serverPeakRssBytes: finite(server?.peakRssBytes),
    // Where a process's PSS cannot be read, its RSS is in the sum.
    serverPeakPssBytes: server?.pssNote === undefined ? finite(server?.peakPssBytes) : null,
    clientCpuFraction,
    clientBound: isClientBound(clientCpuFraction, sendLagP99Ms),
    requests: load.requests,
    examples: load.examples,
    p90Ms: ifTimed(load.latency.p90Ms),
    p999Ms: ifTimed(load.latency.p999Ms),
    maxMs: ifTimed(load.latency.maxMs),
    sendLagP99Ms,
    ...(gauges === undefined ? {} : { gauges }),
    ...(open
      ? {
          p50FromSendMs: ifTimed(load.latencyFromSend.p50Ms),
          p99FromSendMs: ifTimed(load.latencyFromSend.p99Ms),
          dropped: load.dropped,
          late: load.late,
        }
      : {}),
  };
}

function finite(value: number | null | undefined): number | null {
  return value !== null && value !== undefined && Number.isFinite(value) ? value : null;
}
