import type { BatcherError } from "./batcher-error.ts";

/**
 * Where an entry is. It moves only forward:
 *
 *     queued ──> running ──> settled
 *        └────────────────────^   (cancelled, expired, evicted, closed)
 */
export type EntryState = "queued" | "running" | "settled";

/** One item, or one part of a split item, on its way through the batcher. */
export class Entry<Item, Result> {
  readonly item: Item;
  readonly size: number;
  readonly priority: number;
  readonly arrivedAtMs: number;
  /** Infinity without a deadline. */
  readonly deadlineAtMs: number;
  state: EntryState = "queued";
  readonly resolve: (result: Result) => void;
  readonly reject: (error: BatcherError) => void;
  /** Takes the listener off the caller's signal; valid iff a signal was given. */
  unlisten: (() => void) | undefined;
  /** The batch it is in; valid iff running. */
  batch: { entryLeft(): void } | undefined;
  /** Neighbours in the queue's level; valid iff queued. */
  previous: Entry<Item, Result> | undefined;
  next: Entry<Item, Result> | undefined;

  constructor(
    item: Item,
    size: number,
    priority: number,
    arrivedAtMs: number,
    deadlineAtMs: number,
    resolve: (result: Result) => void,
    reject: (error: BatcherError) => void,
  ) {
    this.item = item;
    this.size = size;
    this.priority = priority;
    this.arrivedAtMs = arrivedAtMs;
    this.deadlineAtMs = deadlineAtMs;
    this.resolve = resolve;
    this.reject = reject;
    this.unlisten = undefined;
    this.batch = undefined;
    this.previous = undefined;
    this.next = undefined;
  }
}
