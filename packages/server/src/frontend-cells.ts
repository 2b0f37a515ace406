import { ACTIVITY_CELLS } from "./request-activity.ts";
import { COUNTER_CELLS } from "./server-counters.ts";
import { STAGE_CELLS } from "./stage-times.ts";

/** Numbers of a frontend's requests in a ring, by their place. */
export const RING_CELL = {
  /** Examples that are in the server and not answered. */
  unanswered: 0,
  waitingRequests: 1,
  waitingExamples: 2,
  cancelledWaiting: 3,
  cancelledRunning: 4,
  expiredWaiting: 5,
  expiredRunning: 6,
  /** For want of room. */
  refused: 7,
} as const;

const RING_CELLS = 8;
const CELLS = COUNTER_CELLS + STAGE_CELLS + ACTIVITY_CELLS + RING_CELLS;

/**
 * What a frontend counts, in memory that the thread which answers for the whole server reads: one writer, any number of
 * readers, and it outlives the frontend's thread. Elements are float64: integers to 2^53, times in milliseconds.
 */
export interface FrontendCells {
  readonly counters: Float64Array;
  readonly stages: Float64Array;
  readonly activity: Float64Array;
  readonly ring: Float64Array;
}

export function allocateFrontendCells(): SharedArrayBuffer {
  return new SharedArrayBuffer(CELLS * Float64Array.BYTES_PER_ELEMENT);
}

export function frontendCells(buffer: SharedArrayBuffer): FrontendCells {
  let at = 0;
  const take = (count: number): Float64Array => {
    const cells = new Float64Array(buffer, at * Float64Array.BYTES_PER_ELEMENT, count);
    at += count;
    return cells;
  };
  return {
    counters: take(COUNTER_CELLS),
    stages: take(STAGE_CELLS),
    activity: take(ACTIVITY_CELLS),
    ring: take(RING_CELLS),
  };
}

/** The sums of several frontends' cells, element by element. */
export function sumCells(parts: readonly Float64Array[], length: number): Float64Array {
  const sum = new Float64Array(length);
  for (const part of parts) {
    for (let index = 0; index < length; index++) sum[index] = (sum[index] as number) + (part[index] as number);
  }
  return sum;
}
