import type { BatcherError } from "./batcher-error.ts";
import type { FlushReason } from "./flush-policy.ts";

/** A batch as a hook sees it. Times are milliseconds of the batcher's clock. */
export interface BatchInfo {
  /** Counts from 1. */
  readonly id: number;
  readonly items: number;
  readonly size: number;
  readonly paddedSize: number;
  readonly flushReason: FlushReason;
  readonly startedAtMs: number;
  /** How long the oldest item of the batch had waited. */
  readonly oldestWaitMs: number;
  /** What the batch was expected to take, by the learnt cost; undefined before the first batch has run. */
  readonly expectedRunMs: number | undefined;
  /** Batches in flight, this one included. */
  readonly inFlightBatches: number;
  /** Items that stayed in the queue. */
  readonly queuedItems: number;
}

/**
 * Called as things happen, for metrics and tracing. A hook must be quick, and what it throws is counted
 * (`BatcherStats.hookErrors`) and dropped.
 */
export interface BatcherHooks {
  /** A batch is about to run. */
  onBatchStart?(info: BatchInfo): void;
  /** A batch is over; with the error of its items if it failed as a whole. */
  onBatchEnd?(info: BatchInfo, runMs: number, error: BatcherError | undefined): void;
  /** An item left without a result of a run: refused, evicted, cancelled, expired, closed. */
  onItemDropped?(error: BatcherError): void;
}
