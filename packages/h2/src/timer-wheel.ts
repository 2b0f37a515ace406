/** A place in the wheel; keep it to cancel. */
export interface WheelTimer<Item> {
  /** What `onExpired` is given. */
  readonly item: Item;
  /** Whether it waits: neither expired nor cancelled. */
  readonly isPending: boolean;
}

class Entry<Item> implements WheelTimer<Item> {
  readonly item: Item;
  readonly dueTick: number;
  isPending = true;
  previous: Entry<Item> | undefined = undefined;
  next: Entry<Item> | undefined = undefined;

  constructor(item: Item, dueTick: number) {
    this.item = item;
    this.dueTick = dueTick;
  }
}

/** Time and one timer, so that a test can make time pass. */
export interface WheelClock {
  /** Monotonic milliseconds. */
  nowMs(): number;
  /** Calls `callback` once, in `delayMs` or later, but may do so early after 24 days; returns what takes that back. It must not keep the process alive. */
  schedule(callback: () => void, delayMs: number): () => void;
}

/** Longest that a timer of Node's waits, milliseconds: one that is to wait longer goes off at once, with a warning. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const systemClock: WheelClock = {
  nowMs: () => performance.now(),
  schedule(callback, delayMs) {
    // A wheel that is woken early finds nothing due, and sleeps again.
    const timer = setTimeout(callback, Math.min(delayMs, MAX_TIMER_MS)).unref();
    return () => clearTimeout(timer);
  },
};

export interface TimerWheelOptions<Item> {
  /** An item is due. What it throws goes to whoever ran the clock, after all other items that were due. */
  readonly onExpired: (item: Item) => void;
  /** How late an item may be, milliseconds, beside what the event loop adds; never early. Defaults to 2. */
  readonly tickMs?: number;
  /** Slots of the wheel, a power of two: an item further away than `tickMs * slots` is looked at once a turn. Defaults to 2,048. */
  readonly slots?: number;
  readonly clock?: WheelClock;
}

/**
 * Deadlines of very many items for the price of one timer (a hashed timer wheel): adding and cancelling are O(1) and cost no
 * timer, no closure and no AbortSignal each. The timer runs only while something waits, and sleeps until the next slot with
 * something in it.
 *
 * Invariants: every pending entry is in the slot `dueTick & (slots - 1)`; `size` is their number; slots before `tick` have
 * been looked at.
 */
export class TimerWheel<Item> {
  private readonly onExpired: (item: Item) => void;
  private readonly tickMs: number;
  private readonly clock: WheelClock;
  private readonly slots: (Entry<Item> | undefined)[];
  private readonly mask: number;
  private readonly startMs: number;
  /** All ticks up to this one have been looked at. */
  private tick = 0;
  private pending = 0;
  private unschedule: (() => void) | undefined = undefined;
  private wakeTick = Infinity;
  private readonly wake: () => void;

  constructor(options: TimerWheelOptions<Item>) {
    const { tickMs = 2, slots = 2048, clock = systemClock } = options;
    if (!(tickMs > 0)) throw new RangeError(`tickMs: expected a number above 0, got ${tickMs}`);
    if (!Number.isInteger(slots) || slots < 2 || (slots & (slots - 1)) !== 0)
      throw new RangeError(`slots: expected a power of two, 2 or more, got ${slots}`);
    this.onExpired = options.onExpired;
    this.tickMs = tickMs;
    this.clock = clock;
    this.slots = Array.from({ length: slots }, () => undefined);
    this.mask = slots - 1;
    this.startMs = clock.nowMs();
    this.wake = () => {
      this.unschedule = undefined;
      this.wakeTick = Infinity;
      this.advance();
    };
  }

  /** Items that wait. */
  get size(): number {
    return this.pending;
  }

  /** `onExpired(item)` will be called `delayMs` from now, or up to a tick later. A delay of 0 or less is over at the next tick. */
  add(item: Item, delayMs: number): WheelTimer<Item> {
    const dueMs = this.clock.nowMs() - this.startMs + Math.max(0, delayMs);
    const entry = new Entry(item, Math.max(this.tick + 1, Math.ceil(dueMs / this.tickMs)));
    const slot = entry.dueTick & this.mask;
    const first = this.slots[slot];
    entry.next = first;
    if (first !== undefined) first.previous = entry;
    this.slots[slot] = entry;
    this.pending += 1;
    if (entry.dueTick < this.wakeTick) this.wakeAt(entry.dueTick);
    return entry;
  }

  /** False if it has expired or was cancelled before. */
  cancel(timer: WheelTimer<Item>): boolean {
    const entry = timer as Entry<Item>;
    if (!entry.isPending) return false;
    this.remove(entry);
    // The timer is left as it is: it finds nothing, or is wanted by the next item.
    return true;
  }

  /** Forgets all items without a word. */
  clear(): void {
    for (let slot = 0; slot < this.slots.length; slot++) {
      for (let entry = this.slots[slot]; entry !== undefined; entry = entry.next) entry.isPending = false;
      this.slots[slot] = undefined;
    }
    this.pending = 0;
    this.unschedule?.();
    this.unschedule = undefined;
    this.wakeTick = Infinity;
  }

  private advance(): void {
    const now = Math.floor((this.clock.nowMs() - this.startMs) / this.tickMs);
    const due: Entry<Item>[] = [];
    // After a pause of more than a turn each slot is looked at once.
    const last = Math.min(now, this.tick + this.slots.length);
    for (let tick = this.tick + 1; tick <= last; tick++) {
      for (let entry = this.slots[tick & this.mask]; entry !== undefined; entry = entry.next) {
        if (entry.dueTick <= now) due.push(entry);
      }
    }
    this.tick = Math.max(this.tick, now);
    due.sort((a, b) => a.dueTick - b.dueTick);
    try {
      this.expire(due);
    } finally {
      const next = this.pending > 0 ? this.nextTick() : Infinity;
      if (next < this.wakeTick) this.wakeAt(next);
    }
  }

  private expire(due: readonly Entry<Item>[]): void {
    const failures: unknown[] = [];
    for (const entry of due) {
      // One that was due before it may have cancelled it.
      if (!entry.isPending) continue;
      this.remove(entry);
      try {
        this.onExpired(entry.item);
      } catch (cause) {
        failures.push(cause);
      }
    }
    if (failures.length > 0) throw failures.length === 1 ? failures[0] : new AggregateError(failures);
  }

  /** The first tick from now on whose slot is not empty. */
  private nextTick(): number {
    let tick = this.tick + 1;
    while (this.slots[tick & this.mask] === undefined) tick += 1;
    return tick;
  }

  private wakeAt(tick: number): void {
    this.unschedule?.();
    this.wakeTick = tick;
    const delayMs = this.startMs + tick * this.tickMs - this.clock.nowMs();
    this.unschedule = this.clock.schedule(this.wake, Math.max(1, Math.ceil(delayMs)));
  }

  private remove(entry: Entry<Item>): void {
    entry.isPending = false;
    this.pending -= 1;
    const { previous, next } = entry;
    if (previous === undefined) this.slots[entry.dueTick & this.mask] = next;
    else previous.next = next;
    if (next !== undefined) next.previous = previous;
    entry.previous = undefined;
    entry.next = undefined;
  }
}
