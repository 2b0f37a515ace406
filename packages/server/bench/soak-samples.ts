import type { Served } from "./served.ts";

export interface Sample {
  /** Answered so far. */
  readonly requests: number;
  readonly rssMb: number;
  readonly heapMb: number;
  readonly externalMb: number;
  readonly openFiles: number;
  readonly inFlight: number;
  /** Refused for anything but that their caller was killed. */
  readonly refused: number;
}

export async function closeSample(server: Served, openFiles: number): Promise<Sample> {
  const text = await (await fetch(`http://127.0.0.1:${server.adminPort}/metrics`)).text();
  const values = new Map(text.split("\n").map((line) => line.split(" ") as [string, string]));
  const of = (name: string): number => Number(values.get(name) ?? 0);
  const refused = [...values].filter(([name]) => /^dlrm_requests_total\{code="(?!OK|CANCELLED)/u.test(name));
  return {
    requests: of('dlrm_requests_total{code="OK"}'),
    rssMb: of("process_resident_memory_bytes") / 1e6,
    heapMb: of("nodejs_heap_used_bytes") / 1e6,
    externalMb: of("nodejs_external_memory_bytes") / 1e6,
    openFiles,
    inFlight: of("dlrm_in_flight_requests"),
    refused: refused.reduce((sum, [, count]) => sum + Number(count), 0),
  };
}

/** Least-squares slope of a value over a million requests. */
export function slopePerMillion(samples: readonly Sample[], value: (sample: Sample) => number): number {
  const count = samples.length;
  const meanX = samples.reduce((sum, { requests }) => sum + requests, 0) / count;
  const meanY = samples.reduce((sum, sample) => sum + value(sample), 0) / count;
  let covariance = 0;
  let variance = 0;
  for (const sample of samples) {
    covariance += (sample.requests - meanX) * (value(sample) - meanY);
    variance += (sample.requests - meanX) ** 2;
  }
  return (covariance / variance) * 1e6;
}
