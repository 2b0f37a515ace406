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

/** One item, or one part of a split item, on its way through the batcher. Small: there may be a great many. */
export class Entry<Item, Result> {
  readonly item: Item;
  readonly size: number;
  readonly priority: number;
  readonly arrivedAtMs: number;
  state: EntryState = "queued";
  readonly resolve: (result: Result) => void;
  readonly reject: (error: BatcherError) => void;
  readonly extra: EntryExtra | undefined;
  /** Neighbours in the queue's level; valid iff queued. */
  previous: Entry<Item, Result> | undefined = undefined;
  next: Entry<Item, Result> | undefined = undefined;

  constructor(
    item: Item,
    size: number,
    priority: number,
    arrivedAtMs: number,
    resolve: (result: Result) => void,
    reject: (error: BatcherError) => void,
    extra: EntryExtra | undefined,
  ) {
    this.item = item;
    this.size = size;
    this.priority = priority;
    this.arrivedAtMs = arrivedAtMs;
    this.resolve = resolve;
    this.reject = reject;
    this.extra = extra;
  }

  get deadlineAtMs(): number {
    return this.extra === undefined ? Infinity : this.extra.deadlineAtMs;
  }
}
