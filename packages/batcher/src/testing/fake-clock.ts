import type { Clock, TimerHandle } from "../clock.ts";

interface FakeTimer {
  readonly dueMs: number;
  readonly order: number;
  callback: (() => void) | undefined;
}

/** Promise reactions that may follow one another before time moves on: more than any chain in this package has. */
const DEFAULT_MICROTASK_TURNS = 12;

/**
 * A clock that moves only when told to, so that a test of timing takes no time and always goes the same way.
 *
 * Timers fire in the order of their time, those of one time in the order in which they were set, with promise reactions
 * run out in between.
 */
export class FakeClock implements Clock {
  #nowMs = 0;
  #order = 0;
  #heap: FakeTimer[] = [];
  readonly #microtaskTurns: number;

  /** `microtaskTurns`: how many promise reactions in a row are awaited before time moves on. Default 12. */
  constructor(options: { readonly microtaskTurns?: number } = {}) {
    this.#microtaskTurns = options.microtaskTurns ?? DEFAULT_MICROTASK_TURNS;
  }

  now(): number {
    return this.#nowMs;
  }

  /** The timers that would still fire. */
  get pendingTimers(): number {
    return this.#heap.filter((timer) => timer.callback !== undefined).length;
  }

  schedule(callback: () => void, delayMs: number): TimerHandle {
    this.#order += 1;
    const timer: FakeTimer = { dueMs: this.#nowMs + Math.max(0, delayMs), order: this.#order, callback };
    this.#push(timer);
    return timer;
  }

  cancel(handle: TimerHandle): void {
    if (handle !== undefined) {
      (handle as FakeTimer).callback = undefined;
    }
  }

  /** Moves time on, firing what falls due, and lets promises settle before, between and after. */
  async advanceMs(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await this.settle();
    while ((this.#heap[0]?.dueMs ?? Infinity) <= endMs) {
      await this.next();
    }
    this.#nowMs = endMs;
  }

  /** Moves time on to the next timer, fires it, and lets promises settle. False if there is none. */
  async next(): Promise<boolean> {
    for (let timer = this.#pop(); timer !== undefined; timer = this.#pop()) {
      const { callback } = timer;
      if (callback !== undefined) {
        this.#nowMs = Math.max(this.#nowMs, timer.dueMs);
        timer.callback = undefined;
        callback();
        await this.settle();
        return true;
      }
    }
    return false;
  }

  /** Lets promises settle at this time. */
  async settle(): Promise<void> {
    for (let i = 0; i < this.#microtaskTurns; i += 1) {
      await Promise.resolve();
    }
  }

  #push(timer: FakeTimer): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(timer);
    while (at > 0) {
      const up = (at - 1) >> 1;
      const above = heap[up] as FakeTimer;
      if (!before(timer, above)) {
        break;
      }
      heap[at] = above;
      at = up;
    }
    heap[at] = timer;
  }

  #pop(): FakeTimer | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const moved = heap.pop();
    if (moved === undefined || heap.length === 0) {
      return first;
    }
    let at = 0;
    for (;;) {
      let down = at * 2 + 1;
      const right = heap[down + 1];
      if (right !== undefined && before(right, heap[down] as FakeTimer)) {
        down += 1;
      }
      const below = heap[down];
      if (below === undefined || !before(below, moved)) {
        break;
      }
      heap[at] = below;
      at = down;
    }
    heap[at] = moved;
    return first;
  }
}

function before(a: FakeTimer, b: FakeTimer): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}
