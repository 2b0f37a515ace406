import type { Entry } from "./entry.ts";

/** Priorities are whole numbers from 0, the default, to this; the higher goes first. */
export const MAX_PRIORITY = 9;

interface Level<Item, Result> {
  /** Before `head` are those that have been taken, after it holes where an entry has left out of turn. */
  entries: (Entry<Result> | undefined)[];
  /** The items of the entries, at the same indices. */
  values: (Item | undefined)[];
  /** The place of the entry at index 0. Places are 32-bit integers, and wrap. */
  base: number;
  head: number;
  items: number;
  size: number;
}

/** What is taken out of the queue to be run together. */
export interface Taken<Item, Result> {
  entries: Entry<Result>[];
  /** Those of the entries. */
  items: Item[];
  size: number;
  /** Whether no entry has a deadline or a signal, and none came before the one it follows. */
  readonly plain: boolean;
}

/** Below this many holes a level is not worth moving together. */
const HOLES_FLOOR = 64;

/**
 * The waiting entries: a list for each priority, first in first out. An entry that leaves out of turn leaves a hole, so
 * that any leaves in O(1); the holes go when they are more than the entries.
 *
 * Invariants:
 * - `items` and `size` are the number and the summed size of the entries in all levels.
 * - Bit p of `#mask` is set iff level p has an entry.
 * - In a level with entries, those at `head` and at the end are no holes; one without has an empty list.
 * - In a level, `arrivedAtMs` does not fall from `head` to the end, and each entry's `place` is its index after `base`.
 */
export class EntryQueue<Item, Result> {
  items = 0;
  size = 0;
  readonly #agingMs: number;
  readonly #levels: Level<Item, Result>[];
  #mask = 0;
  /** Entries that have a deadline or a signal. */
  #notPlain = 0;

  /** After each `agingMs` of waiting an entry counts as one priority higher. */
  constructor(agingMs: number) {
    this.#agingMs = agingMs;
    this.#levels = Array.from({ length: MAX_PRIORITY + 1 }, () => ({
      entries: [],
      values: [],
      base: 0,
      head: 0,
      items: 0,
      size: 0,
    }));
  }

  push(entry: Entry<Result>, item: Item): void {
    const { priority, size } = entry;
    const level = this.#level(priority);
    entry.place = (level.base + level.entries.length) | 0;
    level.entries.push(entry);
    level.values.push(item);
    if (entry.extra !== undefined) {
      this.#notPlain += 1;
    }
    this.#mask |= 1 << priority;
    level.items += 1;
    level.size += size;
    this.items += 1;
    this.size += size;
  }

  /** Whether an entry is here, and not in a batch. */
  holds(entry: Entry<Result>): boolean {
    const { entries, base, head } = this.#level(entry.priority);
    const index = (entry.place - base) | 0;
    return index >= head && entries[index] === entry;
  }

  /** Takes an entry out, wherever it is, and gives its item. */
  remove(entry: Entry<Result>): Item {
    const level = this.#level(entry.priority);
    const index = (entry.place - level.base) | 0;
    const item = level.values[index] as Item;
    level.entries[index] = undefined;
    level.values[index] = undefined;
    if (entry.extra !== undefined) {
      this.#notPlain -= 1;
    }
    this.#left(level, entry.priority, 1, entry.size);
    return item;
  }

  /**
   * Takes the first entries, as many as these bounds allow, without a look at them; undefined unless that is the same as
   * one by one: all that waits is plain, of one priority and of size 1, and none has left out of turn.
   */
  takePlain(maxItems: number): Taken<Item, Result> | undefined {
    const mask = this.#mask;
    if (this.#notPlain > 0 || this.size !== this.items || mask === 0 || (mask & (mask - 1)) !== 0) {
      return undefined;
    }
    const priority = 31 - Math.clz32(mask);
    const level = this.#level(priority);
    const { entries, values, head } = level;
    if (entries.length - head !== level.items) {
      return undefined;
    }
    const end = head + Math.min(level.items, maxItems);
    const taken: Taken<Item, Result> = {
      entries: entries as Entry<Result>[],
      items: values as Item[],
      size: end - head,
      plain: true,
    };
    if (head > 0 || end < entries.length) {
      taken.entries = taken.entries.slice(head, end);
      taken.items = taken.items.slice(head, end);
    }
    level.head = end;
    this.#left(level, priority, end - head, end - head);
    return taken;
  }

  /** The entry to run next: of the highest priority, aging counted; of equals the one that came first. */
  peek(nowMs: number): Entry<Result> | undefined {
    let best: Entry<Result> | undefined;
    let bestPriority = -1;
    for (let mask = this.#mask; mask !== 0;) {
      const priority = 31 - Math.clz32(mask);
      mask ^= 1 << priority;
      // The first of a level has waited longest there, so no other of its level counts higher.
      const first = this.#first(priority);
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
      oldest = Math.min(oldest, this.#first(priority).arrivedAtMs);
    }
    return oldest;
  }

  /** The entry to give up first: the newest of the lowest priority. */
  leastUrgent(): Entry<Result> | undefined {
    return this.#mask === 0 ? undefined : this.#level(31 - Math.clz32(this.#mask & -this.#mask)).entries.at(-1);
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

  /** After some have left: counts, and restores what holds of a level. */
  #left(level: Level<Item, Result>, priority: number, items: number, size: number): void {
    level.items -= items;
    level.size -= size;
    this.items -= items;
    this.size -= size;
    if (level.items === 0) {
      level.entries = [];
      level.values = [];
      level.head = 0;
      this.#mask &= ~(1 << priority);
      return;
    }
    const { entries } = level;
    while (entries[level.head] === undefined) {
      level.head += 1;
    }
    while (entries.at(-1) === undefined) {
      entries.pop();
      level.values.pop();
    }
    const holes = entries.length - level.items;
    if (holes > HOLES_FLOOR && holes > level.items) {
      closeHoles(level, holes);
    }
  }

  #first(priority: number): Entry<Result> {
    const { entries, head } = this.#level(priority);
    return entries[head] as Entry<Result>;
  }

  #level(priority: number): Level<Item, Result> {
    return this.#levels[priority] as Level<Item, Result>;
  }
}

function closeHoles<Item, Result>(level: Level<Item, Result>, holes: number): void {
  const { head } = level;
  const entries = level.entries.slice(head);
  const values = level.values.slice(head);
  level.head = 0;
  level.base = (level.base + head) | 0;
  if (holes === head) {
    // Those that are left keep their places, and need not be touched.
    level.entries = entries;
    level.values = values;
    return;
  }
  level.values = values.filter((_, i) => entries[i] !== undefined);
  level.entries = entries.filter((entry) => entry !== undefined);
  for (const [i, entry] of level.entries.entries()) {
    (entry as Entry<Result>).place = (level.base + i) | 0;
  }
}
