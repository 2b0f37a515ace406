import type { Arrivals } from "./arrivals.ts";
import type { Resolve } from "./entry.ts";
import type { EntryQueue } from "./entry-queue.ts";

/** Plain items of this tick, `room` of them at most. In the queue all at once, they cost half as much. */
export class PlainItems<Item, Result> {
  waiting: Resolve<Result>[] = [];
  items: Item[] = [];
  /** Items that may be put into the lists as they are, those that are in them among them. */
  room = 0;
  readonly #queue: EntryQueue<Item, Result>;
  readonly #arrivals: Arrivals;
  readonly #counters: { submittedItems: number };

  constructor(queue: EntryQueue<Item, Result>, arrivals: Arrivals, counters: { submittedItems: number }) {
    this.#queue = queue;
    this.#arrivals = arrivals;
    this.#counters = counters;
  }

  /** Puts those that have come into the queue: before anything that must know of them. */
  absorb(): void {
    this.room = 0;
    const { waiting, items } = this;
    if (items.length > 0) {
      this.waiting = [];
      this.items = [];
      const arrival = this.#arrivals.ofTick();
      this.#counters.submittedItems += items.length;
      this.#queue.pushPlain(waiting, items, arrival);
      this.#arrivals.count(arrival, items.length, items.length);
    }
  }
}
