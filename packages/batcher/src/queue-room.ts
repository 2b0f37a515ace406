import { BatcherError } from "./batcher-error.ts";
import type { Waiting } from "./entry.ts";
import type { EntryQueue } from "./entry-queue.ts";

interface Limits {
  readonly maxEnqueuedItems: number;
  readonly maxEnqueuedSize: number;
}

/** How much may wait, and who gives way to whom when that is reached. */
export class QueueRoom<Item, Result> {
  readonly #limits: Limits;
  readonly #queue: EntryQueue<Item, Result>;
  readonly #retryAfterMs: () => number;

  /** `retryAfterMs`: when there is room again, about. */
  constructor(limits: Limits, queue: EntryQueue<Item, Result>, retryAfterMs: () => number) {
    this.#limits = limits;
    this.#queue = queue;
    this.#retryAfterMs = retryAfterMs;
  }

  /** How many items of size 1 have room without another giving way. */
  get plain(): number {
    const { maxEnqueuedItems, maxEnqueuedSize } = this.#limits;
    return Math.min(maxEnqueuedItems - this.#queue.items, maxEnqueuedSize - this.#queue.size);
  }

  has(size: number): boolean {
    const { maxEnqueuedItems, maxEnqueuedSize } = this.#limits;
    return this.#queue.items < maxEnqueuedItems && this.#queue.size + size <= maxEnqueuedSize;
  }

  /** Evicts items of lower priority if that makes the room that is needed; else says which limit is reached. */
  make(
    items: number,
    size: number,
    priority: number,
    evict: (waiting: Waiting<Result>, error: BatcherError) => void,
  ): BatcherError | undefined {
    const { maxEnqueuedItems, maxEnqueuedSize } = this.#limits;
    const queue = this.#queue;
    const tooMany = queue.items + items - maxEnqueuedItems;
    const tooMuch = queue.size + size - maxEnqueuedSize;
    if (tooMany <= 0 && tooMuch <= 0) {
      return undefined;
    }
    const lower = queue.below(priority);
    if (tooMany > lower.items || tooMuch > lower.size) {
      return this.#overloaded(tooMany > lower.items);
    }
    while (queue.items + items > maxEnqueuedItems || queue.size + size > maxEnqueuedSize) {
      evict(queue.leastUrgent() as Waiting<Result>, this.#overloaded(queue.items + items > maxEnqueuedItems));
    }
    return undefined;
  }

  #overloaded(byItems: boolean): BatcherError {
    const limitName = byItems ? "maxEnqueuedItems" : "maxEnqueuedSize";
    const limit = this.#limits[limitName];
    const current = byItems ? this.#queue.items : this.#queue.size;
    return new BatcherError("overloaded", `the queue is full: ${limitName} is ${limit}, and it holds ${current}`, {
      limitName,
      limit,
      current,
      retryAfterMs: this.#retryAfterMs(),
    });
  }
}
