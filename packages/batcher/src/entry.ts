import type { Arrival } from "./arrival.ts";
import type { BatcherError } from "./batcher-error.ts";

/**
 * Where an entry is. It moves only forward:
 *
 *     queued ──> running ──> settled
 *        └────────────────────^   (cancelled, expired, evicted, closed)
 */
export type EntryState = "queued" | "running" | "settled";

/** Gets what became of an item, once: an error, or else its result. */
export type OnSettled<Result> = (error: BatcherError | undefined, result: Result | undefined) => void;

/** Whoever hears it by a method: callers that have an object for each item anyway need no function for each beside it. */
export interface ItemOwner<Result> {
  /** As `OnSettled`. */
  settled(error: BatcherError | undefined, result: Result | undefined): void;
}

/** Resolves the promise of a plain item. */
export type Resolve<Result> = (result: Result | PromiseLike<Result>) => void;

/**
 * An item on its way through the batcher. Of a plain one, of size 1 and priority 0, that can neither be cancelled nor
 * expire, there is only what resolves its promise: it is most of what an item costs to keep more than that.
 */
export type Waiting<Result> = Entry<Result> | Resolve<Result>;

const RESOLVED = Promise.resolve();

/** Who is told what became of the parts of a split item. */
interface Whole<Result> {
  settlePart(index: number, error: BatcherError | undefined, result: Result | undefined): void;
}

/** The `part` of an entry that is none. */
export const NO_PART = -1;

/** One item that is not plain, or one part of a split item. The item itself is beside it. */
export class Entry<Result> {
  // Declared only: a field definition would write each of them twice, for every item.
  declare readonly size: number;
  declare readonly priority: number;
  declare readonly arrival: Arrival;
  /** Infinity without a deadline. */
  declare readonly deadlineAtMs: number;
  declare readonly onSettled: OnSettled<Result> | ItemOwner<Result> | Whole<Result>;
  /** Which part it is, of a split item; valid iff `onSettled` is that item. */
  declare readonly part: number;
  declare state: EntryState;
  /** Where it is in the queue's level; valid iff queued. */
  declare place: number;
  /** Takes the listener off the caller's signal; valid iff a signal was given. */
  declare unlisten: (() => void) | undefined;
  /** The batch it is in; valid iff running. */
  declare batch: { entryLeft(): void } | undefined;

  constructor(
    size: number,
    priority: number,
    arrival: Arrival,
    deadlineAtMs: number,
    onSettled: OnSettled<Result> | ItemOwner<Result> | Whole<Result>,
    part: number,
  ) {
    this.size = size;
    this.priority = priority;
    this.arrival = arrival;
    this.deadlineAtMs = deadlineAtMs;
    this.onSettled = onSettled;
    this.part = part;
    this.state = "queued";
    this.place = 0;
    this.unlisten = undefined;
    this.batch = undefined;
  }

  /** Gives the result. Its batch is over, so a callback may do as it likes. */
  resolve(result: Result): void {
    const { onSettled, part } = this;
    if (part === NO_PART) {
      tell(onSettled as OnSettled<Result> | ItemOwner<Result>, undefined, result);
    } else {
      (onSettled as Whole<Result>).settlePart(part, undefined, result);
    }
  }

  /** Tells of an error; a callback hears of it later, as errors are found in the middle of the batcher's work. */
  reject(error: BatcherError): void {
    const { onSettled, part } = this;
    if (part === NO_PART) {
      failLater(onSettled as OnSettled<Result> | ItemOwner<Result>, error);
    } else {
      (onSettled as Whole<Result>).settlePart(part, error, undefined);
    }
  }
}

/** Calls back, soon, with an error. */
export function failLater<Result>(onSettled: OnSettled<Result> | ItemOwner<Result>, error: BatcherError): void {
  void RESOLVED.then(() => tell(onSettled, error, undefined));
}

/** Calls back; what that throws is thrown again in a microtask. */
export function tell<Result>(
  onSettled: OnSettled<Result> | ItemOwner<Result>,
  error: BatcherError | undefined,
  result: Result | undefined,
): void {
  try {
    if (typeof onSettled === "function") {
      onSettled(error, result);
    } else {
      onSettled.settled(error, result);
    }
  } catch (thrown) {
    // That of one item is nothing to the others of its batch, and must not be lost.
    queueMicrotask(() => {
      throw thrown;
    });
  }
}

/** Makes a function that fails waiting items with this reason, whatever they are. */
export function failWith<Result>(reason: BatcherError): (waiting: Waiting<Result>) => void {
  let rejected: Promise<never> | undefined;
  return (waiting) => {
    if (typeof waiting !== "function") {
      waiting.reject(reason);
      return;
    }
    if (rejected === undefined) {
      rejected = Promise.reject(reason);
      // Those that resolve to it handle it, a moment later.
      rejected.catch(() => {});
    }
    waiting(rejected);
  };
}
