/**
 * Why an item has no result:
 * - `overloaded`: a queue limit was reached (`limitName`, `limit`, `current`); try again after `retryAfterMs`.
 * - `draining`: the batcher finishes what it has and takes nothing new.
 * - `closed`: the batcher was closed before or while the item was in it.
 * - `deadline_exceeded`: the item's deadline passed before its result was there.
 * - `cancelled`: the item's signal was aborted; `cause` is the signal's reason.
 * - `too_large`: the item is larger than a batch and there is no `split` and `join`.
 * - `invalid_argument`: the item's size, priority, deadline or parts are not usable; `cause` is what a callback threw.
 * - `invalid_options`: the constructor's options are not usable; the message lists every problem.
 * - `run_failed`: the batch's run threw, rejected, or returned results that do not fit its items; `cause` says which.
 * - `run_timeout`: the batch's run did not settle within `runTimeoutMs`.
 * - `consumer_gone`: the thread that runs the batches of a shared ring has ended.
 *
 * `overloaded` and `draining` mean that the item was never run: sending it again is safe.
 */
export type BatcherErrorCode =
  | "overloaded"
  | "draining"
  | "closed"
  | "deadline_exceeded"
  | "cancelled"
  | "too_large"
  | "invalid_argument"
  | "invalid_options"
  | "run_failed"
  | "run_timeout"
  | "consumer_gone";

/** What a `BatcherError` may carry beside its code and message. */
export interface BatcherErrorDetails {
  readonly cause?: unknown;
  readonly limitName?: string;
  readonly limit?: number;
  readonly current?: number;
  readonly retryAfterMs?: number;
}

/** The one error class of this package. Match on `code`. */
export class BatcherError extends Error {
  readonly code: BatcherErrorCode;
  /** The option that set the limit; on `overloaded` and `too_large`. */
  readonly limitName: string | undefined;
  readonly limit: number | undefined;
  /** What the limited amount was when the item came, the item not counted. */
  readonly current: number | undefined;
  /** Estimate of when there is room again, in milliseconds; on `overloaded`. */
  readonly retryAfterMs: number | undefined;

  constructor(code: BatcherErrorCode, message: string, details: BatcherErrorDetails = {}) {
    super(message, "cause" in details ? { cause: details.cause } : undefined);
    this.name = "BatcherError";
    this.code = code;
    this.limitName = details.limitName;
    this.limit = details.limit;
    this.current = details.current;
    this.retryAfterMs = details.retryAfterMs;
  }
}
