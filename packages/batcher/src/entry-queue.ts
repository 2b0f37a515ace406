import type { Arrival } from "./arrival.ts";
import type { Entry, Resolve, Waiting } from "./entry.ts";

/** Priorities are whole numbers from 0, the default, to this; the higher goes first. */
export const MAX_PRIORITY = 9;

/** Lists of equal length: at an index all that belongs to one item. */
interface Level<Item, Result> {
  /** Before `head` are those that have been taken, after it holes where an entry has left out of turn. */
  waiting: (Waiting<Result> | undefined)[];
  items: (Item | undefined)[];
  arrivals: Arrival[];
  /** The place of index 0. Places are 32-bit integers, and wrap. */
  base: number;
  head: number;
  count: number;
  size: number;
}

/** What is taken out of the queue to be run together. */
export interface Taken<Item, Result> {
  waiting: Waiting<Result>[];
  /** Those of the waiting. */
  items: Item[];
  /** Those of the waiting, or the one of all. */
  arrivals: Arrival[];
  size: number;
}

/** Below this many holes a level is not worth moving together. */
const HOLES_FLOOR = 64;

/**
 * What waits: lists for each priority, first in first out. An entry that leaves out of turn leaves a hole, so that any
 * leaves in O(1); the holes go when they are more than what waits. Plain items leave only at the ends.
 *
 * Invariants:
 * - `items` and `size` are the number and the summed size of what waits in all levels.
 * - Bit p of `#mask` is set iff something waits in level p.
 * - In a level where something waits, what is at `head` and at the end are no holes; another has empty lists.
 * - In a level, arrivals do not fall from `head` to the end, and each entry's `place` is its index after `base`.
 */
export class EntryQueue<Item, Result> {
  items = 0;
  size = 0;
  readonly #agingMs: number;
  readonly #levels: Level<Item, Result>[];
  /** That of priority 0, where plain items are. */
  readonly #lowest: Level<Item, Result>;
  #mask = 0;
  #entries = 0;

  /** After each `agingMs` of waiting an item counts as one priority higher. */
  constructor(agingMs: number) {
    this.#agingMs = agingMs;
    this.#levels = Array.from({ length: MAX_PRIORITY + 1 }, () => ({
      waiting: [],
      items: [],
      arrivals: [],
      base: 0,
      head: 0,
      count: 0,
      size: 0,
    }));
    this.#lowest = this.#level(0);
  }

  push(entry: Entry<Result>, item: Item): void {
    const { priority, size, arrival } = entry;
    const level = this.#level(priority);
    entry.place = (level.base + level.waiting.length) | 0;
    level.waiting.push(entry);
    level.items.push(item);
    level.arrivals.push(arrival);
    this.#entries += 1;
    this.#mask |= 1 << priority;
    level.count += 1;
    level.size += size;
    this.items += 1;
    this.size += size;
  }

  /** Puts plain items in that came together. The lists are the queue's from then on. */
  pushPlain(waiting: Resolve<Result>[], items: Item[], arrival: Arrival): void {
    const level = this.#lowest;
    const { length } = items;
    if (level.count === 0) {
      level.waiting = waiting;
      level.items = items;
    } else {
      for (let i = 0; i < length; i += 1) {
        level.waiting.push(waiting[i]);
        level.items.push(items[i]);
      }
    }
    for (let i = 0; i < length; i += 1) {
      level.arrivals.push(arrival);
    }
    this.#mask |= 1;
    level.count += length;
    level.size += length;
    this.items += length;
    this.size += length;
  }

  /** Takes an entry out, wherever it is. */
  remove(entry: Entry<Result>): void {
    const level = this.#level(entry.priority);
    const index = (entry.place - level.base) | 0;
    level.waiting[index] = undefined;
    level.items[index] = undefined;
    this.#entries -= 1;
    this.#left(level, entry.priority, 1, entry.size);
  }

  /** Takes the newest of the lowest priority out, if it is plain. */
  popPlain(): void {
    const level = this.#lowest;
    level.waiting[level.waiting.length - 1] = undefined;
    this.#left(level, 0, 1, 1);
  }

  /** Takes out the first of a priority. */
  shift(priority: number): void {
    const level = this.#level(priority);
    const waiting = level.waiting[level.head] as Waiting<Result>;
    level.waiting[level.head] = undefined;
    level.items[level.head] = undefined;
    if (typeof waiting === "function") {
      this.#left(level, priority, 1, 1);
    } else {
      this.#entries -= 1;
      this.#left(level, priority, 1, waiting.size);
    }
  }

  /**
   * Takes the first plain items, `maxItems` of them at most, without a look at them; undefined where not all is plain, or entries
   * that were between them have left holes.
   */
  takePlain(maxItems: number): Taken<Item, Result> | undefined {
    const level = this.#lowest;
    const { waiting, items, arrivals, head, count } = level;
    if (this.#entries > 0 || count === 0 || waiting.length - head !== count) {
      return undefined;
    }
    const end = head + Math.min(count, maxItems);
    const first = arrivals[head] as Arrival;
    const part = head > 0 || end < waiting.length;
    const taken: Taken<Item, Result> = {
      waiting: (part ? waiting.slice(head, end) : waiting) as Waiting<Result>[],
      items: (part ? items.slice(head, end) : items) as Item[],
      // They do not fall, so between two that are the same there is no other.
      arrivals: first === arrivals[end - 1] ? [first] : arrivals.slice(head, end),
      size: end - head,
    };
    level.head = end;
    this.#left(level, 0, end - head, end - head);
    return taken;
  }

  /** The priority whose first is to run next, aging counted; of equals the one that came first. -1 if nothing waits. */
  next(nowMs: number): number {
    let best = -1;
    let bestAged = -1;
    let bestAtMs = Infinity;
    for (let mask = this.#mask; mask !== 0;) {
      const priority = 31 - Math.clz32(mask);
      mask ^= 1 << priority;
      if (best === -1 && mask === 0) {
        return priority;
      }
      // The first of a level has waited longest there, so no other of its level counts higher.
      const { atMs } = this.firstArrival(priority);
      const aged = priority + Math.floor((nowMs - atMs) / this.#agingMs);
      if (best === -1 || aged > bestAged || (aged === bestAged && atMs < bestAtMs)) {
        best = priority;
        bestAged = aged;
        bestAtMs = atMs;
      }
    }
    return best;
  }

  /** What is the first of a priority at which something waits, */
  first(priority: number): Waiting<Result> {
    const { waiting, head } = this.#level(priority);
    return waiting[head] as Waiting<Result>;
  }

  /** its item, */
  firstItem(priority: number): Item {
    const { items, head } = this.#level(priority);
    return items[head] as Item;
  }

  /** and when it came. */
  firstArrival(priority: number): Arrival {
    const { arrivals, head } = this.#level(priority);
    return arrivals[head] as Arrival;
  }

  /** When that came which has waited longest; Infinity when empty. */
  oldestArrivalMs(): number {
    let oldest = Infinity;
    for (let mask = this.#mask; mask !== 0;) {
      const priority = 31 - Math.clz32(mask);
      mask ^= 1 << priority;
      oldest = Math.min(oldest, this.firstArrival(priority).atMs);
    }
    return oldest;
  }

  /** What to give up first: the newest of the lowest priority. */
  leastUrgent(): Waiting<Result> | undefined {
    return this.#mask === 0 ? undefined : this.#level(31 - Math.clz32(this.#mask & -this.#mask)).waiting.at(-1);
  }

  /** Number and summed size of what waits at a lower priority than this. */
  below(priority: number): { items: number; size: number } {
    const sum = { items: 0, size: 0 };
    for (let lower = 0; lower < priority; lower += 1) {
      const level = this.#level(lower);
      sum.items += level.count;
      sum.size += level.size;
    }
    return sum;
  }

  /** After some have left: counts, and restores what holds of a level. */
  #left(level: Level<Item, Result>, priority: number, count: number, size: number): void {
    level.count -= count;
    level.size -= size;
    this.items -= count;
    this.size -= size;
    if (level.count === 0) {
      level.waiting = [];
      level.items = [];
      level.arrivals = [];
      level.head = 0;
      this.#mask &= ~(1 << priority);
      return;
    }
    const { waiting } = level;
    while (waiting[level.head] === undefined) {
      level.head += 1;
    }
    while (waiting.at(-1) === undefined) {
      waiting.pop();
      level.items.pop();
      level.arrivals.pop();
    }
    const holes = waiting.length - level.count;
    if (holes > HOLES_FLOOR && holes > level.count) {
      closeHoles(level, holes);
    }
  }

  #level(priority: number): Level<Item, Result> {
    return this.#levels[priority] as Level<Item, Result>;
  }
}

function closeHoles<Item, Result>(level: Level<Item, Result>, holes: number): void {
  const { head } = level;
  const waiting = level.waiting.slice(head);
  const items = level.items.slice(head);
  const arrivals = level.arrivals.slice(head);
  level.head = 0;
  level.base = (level.base + head) | 0;
  if (holes === head) {
    // Those that are left keep their places, and need not be touched.
    level.waiting = waiting;
    level.items = items;
    level.arrivals = arrivals;
    return;
  }
  level.items = items.filter((_, i) => waiting[i] !== undefined);
  level.arrivals = arrivals.filter((_, i) => waiting[i] !== undefined);
  level.waiting = waiting.filter((one) => one !== undefined);
  for (const [i, one] of level.waiting.entries()) {
    if (typeof one === "object") {
      one.place = (level.base + i) | 0;
    }
  }
}
