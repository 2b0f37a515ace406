import type { BatcherErrorCode } from "./batcher-error.ts";
import type { FlushReason } from "./flush-policy.ts";

/** Bins of the queue-delay histogram: bin i counts delays below 2^i µs that are in no bin before it. */
const DELAY_BINS = 32;

/** What a batcher has done and how it stands. Counts are since it was made. */
export interface BatcherStats {
  readonly submittedItems: number;
  readonly completedItems: number;
  /** Items of failed and timed-out batches. */
  readonly failedItems: number;
  /** Items turned away on arrival, whatever for. */
  readonly refusedItems: number;
  /** The same by error code: `overloaded` for want of room. Codes of none are not there. */
  readonly refusedByCode: Readonly<Partial<Record<BatcherErrorCode, number>>>;
  /** Items that gave way to ones of higher priority. */
  readonly evictedItems: number;
  readonly cancelledBeforeRunItems: number;
  readonly cancelledInRunItems: number;
  readonly expiredBeforeRunItems: number;
  readonly expiredInRunItems: number;
  /** Items rejected by `close()`. */
  readonly closedItems: number;
  readonly batches: Readonly<Record<FlushReason, number>>;
  readonly failedBatches: number;
  /** Summed size of all batches, and what it came to with padding. */
  readonly batchedSize: number;
  readonly paddedSize: number;
  readonly hookErrors: number;
  readonly queuedItems: number;
  readonly queuedSize: number;
  /** How long the longest waiting item has waited; 0 with none. */
  readonly oldestWaitMs: number;
  readonly inFlightBatches: number;
  /** Time in the queue of items that were run: `counts[i]` delays are in [2^(i-1), 2^i) µs. */
  readonly queueDelay: { readonly counts: readonly number[]; readonly sumMs: number };
  /** The learnt cost of a batch; undefined before one has run. */
  readonly cost: { readonly fixedMicros: number; readonly perSizeMicros: number } | undefined;
}

/** The counters behind `BatcherStats`. */
export class Counters {
  submittedItems = 0;
  completedItems = 0;
  failedItems = 0;
  refusedItems = 0;
  readonly refusedByCode: Partial<Record<BatcherErrorCode, number>> = {};
  evictedItems = 0;
  cancelledBeforeRunItems = 0;
  cancelledInRunItems = 0;
  expiredBeforeRunItems = 0;
  expiredInRunItems = 0;
  closedItems = 0;
  readonly batches: Record<FlushReason, number> = { full: 0, idle: 0, timeout: 0, deadline: 0, drain: 0 };
  failedBatches = 0;
  batchedSize = 0;
  paddedSize = 0;
  hookErrors = 0;
  readonly delayCounts: number[] = Array.from({ length: DELAY_BINS }, () => 0);
  delaySumMs = 0;

  delayed(delayMs: number, items: number): void {
    const bin = Math.min(DELAY_BINS - 1, 32 - Math.clz32(delayMs * 1000));
    this.delayCounts[bin] = (this.delayCounts[bin] as number) + items;
    this.delaySumMs += delayMs * items;
  }
}
