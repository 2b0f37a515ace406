import type { HeapSample } from "./heap-child.ts";
import type { Served } from "./served.ts";

export interface Sample {
  /** Answered so far. */
  readonly requests: number;
  /** After a collection, as all of these. */
  readonly rssMb: number;
  /** Of all threads with connections, and the main one. */
  readonly heapMb: number;
  readonly externalMb: number;
  readonly mallocedMb: number;
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
  const { rssMb, threads } = await server.heaps();
  const sum = (part: (heap: HeapSample["threads"][string]) => number): number =>
    Object.values(threads).reduce((total, heap) => total + part(heap), 0);
  return {
    requests: of('dlrm_requests_total{code="OK"}'),
    rssMb,
    heapMb: sum((heap) => heap.heapMb),
    externalMb: sum((heap) => heap.externalMb),
    mallocedMb: sum((heap) => heap.mallocedMb),
    openFiles,
    inFlight: of("dlrm_in_flight_requests"),
    refused: refused.reduce((total, [, count]) => total + Number(count), 0),
  };
}

/** How many times as large a value is in the last quarter as in the second, medians. */
export function growth(samples: readonly Sample[], value: (sample: Sample) => number): number {
  const quarter = Math.max(1, samples.length >> 2);
  const median = (some: readonly Sample[]): number => some.map(value).sort((a, b) => a - b)[some.length >> 1] as number;
  return median(samples.slice(-quarter)) / median(samples.slice(quarter, 2 * quarter));
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
