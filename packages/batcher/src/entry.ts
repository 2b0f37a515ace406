import type { BatcherError } from "./batcher-error.ts";

/**
 * Where an entry is. It moves only forward:
 *
 *     queued ──> running ──> settled
 *        └────────────────────^   (cancelled, expired, evicted, closed)
 */
export type EntryState = "queued" | "running" | "settled";

/** What only an item has that may leave before its result is there. */
export interface EntryExtra {
  /** Infinity without a deadline. */
  readonly deadlineAtMs: number;
  /** Takes the listener off the caller's signal; valid iff a signal was given. */
  unlisten: (() => void) | undefined;
  /** The batch it is in; valid iff running. */
  batch: { entryLeft(): void } | undefined;
}

/** Items that came at one time. One object for all of them: a number of its own would be 16 bytes more an entry. */
export interface Arrival {
  readonly atMs: number;
  /** Those among them that the policy has not been told of, and their summed size. */
  items: number;
  size: number;
}

/**
 * One item, or one part of a split item, on its way through the batcher. The item itself is beside it: an entry that is
 * plain, without a deadline and a signal, is not even looked at between its arrival and its result, when it has left the
 * cache. So it is not told either that it runs, and its state goes from `queued` to `settled`.
 */
export class Entry<Result> {
  // Declared only: a field definition would write each of them twice, for every item.
  declare readonly resolve: (result: Result) => void;
  declare readonly reject: (error: BatcherError) => void;
  declare readonly extra: EntryExtra | undefined;
  declare state: EntryState;
  declare readonly arrival: Arrival;
  declare readonly size: number;
  declare readonly priority: number;
  /** Where it is in the queue's level; valid iff queued. */
  declare place: number;

  constructor(
    size: number,
    priority: number,
    arrival: Arrival,
    resolve: (result: Result) => void,
    reject: (error: BatcherError) => void,
    extra: EntryExtra | undefined,
  ) {
    this.resolve = resolve;
    this.reject = reject;
    this.extra = extra;
    this.state = "queued";
    this.arrival = arrival;
    this.size = size;
    this.priority = priority;
    this.place = 0;
  }

  get arrivedAtMs(): number {
    return this.arrival.atMs;
  }

  get deadlineAtMs(): number {
    return this.extra === undefined ? Infinity : this.extra.deadlineAtMs;
  }
}
