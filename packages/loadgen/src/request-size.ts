import { Random } from "./random.ts";

/** Examples of each request: the same for all, or drawn as MLPerf's recommendation benchmark does. */
export type RequestSize = number | "mlperf";

/** Most examples of a request. */
export const MAX_REQUEST_EXAMPLES = 65_536;

/**
 * How many of 100 samples have so many user-item pairs in MLPerf's recommendation benchmark: the counts of the trace that
 * mlcommons/inference publishes to check a random generator with (recommendation/dlrm_v2/pytorch/tools/
 * dist_trace_verification.txt, 100 samples of 27,000 pairs).
 */
const MLPERF_PAIRS: readonly (readonly [examples: number, count: number])[] = [
  [100, 11],
  [200, 59],
  [300, 10],
  [400, 4],
  [500, 7],
  [600, 3],
  [700, 6],
];

/** Requests after which the sizes of a mixed load have come as often as they should. */
export const REQUESTS_A_BLOCK = 100;

/** Stream of the seed that orders the sizes; requests use those from 0 up. */
const ORDER_STREAM = 0xffff_fffe;

export function meanExamples(size: RequestSize): number {
  if (size !== "mlperf") return size;
  return MLPERF_PAIRS.reduce((sum, [examples, count]) => sum + examples * count, 0) / REQUESTS_A_BLOCK;
}

export function largestExamples(size: RequestSize): number {
  return size === "mlperf" ? Math.max(...MLPERF_PAIRS.map(([examples]) => examples)) : size;
}

/**
 * Examples of request number r of a run, which depends on the seed and r alone. Of each hundred requests from a multiple of
 * 100 on, exactly the published share has each size, in an order by the seed: a short run then offers the same load as a long one.
 */
export function examplesOf(size: RequestSize, seed: number): (request: number) => number {
  if (size !== "mlperf") return () => size;
  const block = MLPERF_PAIRS.flatMap(([examples, count]) => Array.from({ length: count }, () => examples));
  const random = new Random(seed, ORDER_STREAM);
  for (let i = block.length - 1; i > 0; i--) {
    const other = random.below(i + 1);
    [block[i], block[other]] = [block[other] as number, block[i] as number];
  }
  return (request) => block[request % REQUESTS_A_BLOCK] as number;
}
