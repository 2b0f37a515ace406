import type { Entry } from "./entry.ts";

/** Priorities are whole numbers from 0, the default, to this; the higher goes first. */
export const MAX_PRIORITY = 9;

interface Level<Item, Result> {
  first: Entry<Item, Result> | undefined;
  last: Entry<Item, Result> | undefined;
  items: number;
  size: number;
}

/**
 * The waiting entries: a doubly linked list for each priority, first in first out, so that any entry leaves in O(1).
 *
 * Invariants:
 * - `items` and `size` are the number and the summed size of the entries linked in all levels.
 * - Bit p of `#mask` is set iff level p has an entry.
 * - In a level, `arrivedAtMs` does not fall from `first` to `last`.
 */
export class EntryQueue<Item, Result> {
  items = 0;
  size = 0;
  readonly #agingMs: number;
  readonly #levels: Level<Item, Result>[];
  #mask = 0;

  /** After each `agingMs` of waiting an entry counts as one priority higher. */
  constructor(agingMs: number) {
    this.#agingMs = agingMs;
    this.#levels = Array.from({ length: MAX_PRIORITY + 1 }, () => ({
      first: undefined,
      last: undefined,
      items: 0,
      size: 0,
    }));
  }

  push(entry: Entry<Item, Result>): void {
    const level = this.#level(entry.priority);
    const { last } = level;
    entry.previous = last;
    if (last === undefined) {
      level.first = entry;
      this.#mask |= 1 << entry.priority;
    } else {
      last.next = entry;
    }
    level.last = entry;
    level.items += 1;
    level.size += entry.size;
    this.items += 1;
    this.size += entry.size;
  }

  remove(entry: Entry<Item, Result>): void {
    const level = this.#level(entry.priority);
    const { previous, next } = entry;
    if (previous === undefined) {
      level.first = next;
    } else {
      previous.next = next;
    }
    if (next === undefined) {
      level.last = previous;
    } else {
      next.previous = previous;
    }
    entry.previous = undefined;
    entry.next = undefined;
    if (level.first === undefined) {
      this.#mask &= ~(1 << entry.priority);
    }
    level.items -= 1;
    level.size -= entry.size;
    this.items -= 1;
    this.size -= entry.size;
  }

  /** The entry to run next: of the highest priority, aging counted; of equals the one that came first. */
  peek(nowMs: number): Entry<Item, Result> | undefined {
    let best: Entry<Item, Result> | undefined;
    let bestPriority = -1;
    for (let mask = this.#mask; mask !== 0;) {
      const priority = 31 - Math.clz32(mask);
      mask ^= 1 << priority;
      // The first of a level has waited longest there, so no other of its level counts higher.
      const first = this.#level(priority).first as Entry<Item, Result>;
      if (best === undefined && mask === 0) {
        return first;
      }
      const aged = priority + Math.floor((nowMs - first.arrivedAtMs) / this.#agingMs);
      if (
        best === undefined ||
        aged > bestPriority ||
        (aged === bestPriority && first.arrivedAtMs < best.arrivedAtMs)
      ) {
        best = first;
        bestPriority = aged;
      }
    }
    return best;
  }

  /** When the longest waiting entry came; Infinity when empty. */
  oldestArrivalMs(): number {
    let oldest = Infinity;
    for (let mask = this.#mask; mask !== 0;) {
      const priority = 31 - Math.clz32(mask);
      mask ^= 1 << priority;
      oldest = Math.min(oldest, (this.#level(priority).first as Entry<Item, Result>).arrivedAtMs);
    }
    return oldest;
  }

  /** The entry to give up first: the newest of the lowest priority. */
  leastUrgent(): Entry<Item, Result> | undefined {
    return this.#mask === 0 ? undefined : this.#level(31 - Math.clz32(this.#mask & -this.#mask)).last;
  }

  /** Number and summed size of the entries of lower priority than this. */
  below(priority: number): { items: number; size: number } {
    const sum = { items: 0, size: 0 };
    for (let lower = 0; lower < priority; lower += 1) {
      const level = this.#level(lower);
      sum.items += level.items;
      sum.size += level.size;
    }
    return sum;
  }

  #level(priority: number): Level<Item, Result> {
    return this.#levels[priority] as Level<Item, Result>;
  }
}
