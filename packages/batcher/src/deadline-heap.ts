/** What has a deadline, as long as it is in some state. */
export interface Timed {
  readonly deadlineAtMs: number;
  readonly state: string;
}

/** Below this many entries a sweep is not worth it. */
const SWEEP_FLOOR = 64;

/**
 * Entries by deadline, the earliest first: a binary heap from which entries leave by changing their state. Those that
 * left are swept out once they are half of it, so that leaving is O(1), and the heap holds at most twice what lives.
 *
 * Invariant: every entry that was pushed and is still in `#state` is in the heap.
 */
export class DeadlineHeap<Entry extends Timed> {
  readonly #state: string;
  #heap: Entry[] = [];
  #live = 0;

  /** Holds entries as long as they are in `state`. */
  constructor(state: Entry["state"]) {
    this.#state = state;
  }

  push(entry: Entry): void {
    this.#live += 1;
    this.#heap.push(entry);
    this.#siftUp(this.#heap.length - 1);
  }

  /** Tells that an entry with a deadline has left the state. */
  left(): void {
    this.#live -= 1;
    if (this.#heap.length > SWEEP_FLOOR && this.#live * 2 < this.#heap.length) {
      this.#heap = this.#heap.filter((entry) => entry.state === this.#state);
      this.#heap.sort((a, b) => a.deadlineAtMs - b.deadlineAtMs);
    }
  }

  /** The earliest deadline, Infinity without one. */
  earliestMs(): number {
    return this.peek()?.deadlineAtMs ?? Infinity;
  }

  peek(): Entry | undefined {
    let first = this.#heap[0];
    while (first !== undefined && first.state !== this.#state) {
      this.#dropFirst();
      first = this.#heap[0];
    }
    return first;
  }

  /** How many are in the state. */
  get live(): number {
    return this.#live;
  }

  /** How many entries are held, those included that have left and are not swept out yet. */
  get heldEntries(): number {
    return this.#heap.length;
  }

  #siftUp(start: number): void {
    const heap = this.#heap;
    const entry = heap[start] as Entry;
    let at = start;
    while (at > 0) {
      const up = (at - 1) >> 1;
      const above = heap[up] as Entry;
      if (above.deadlineAtMs <= entry.deadlineAtMs) {
        break;
      }
      heap[at] = above;
      at = up;
    }
    heap[at] = entry;
  }

  #dropFirst(): void {
    const heap = this.#heap;
    const entry = heap.pop();
    if (entry === undefined || heap.length === 0) {
      return;
    }
    let at = 0;
    for (;;) {
      let down = at * 2 + 1;
      const left = heap[down];
      if (left === undefined) {
        break;
      }
      const right = heap[down + 1];
      if (right !== undefined && right.deadlineAtMs < left.deadlineAtMs) {
        down += 1;
      }
      const below = heap[down] as Entry;
      if (below.deadlineAtMs >= entry.deadlineAtMs) {
        break;
      }
      heap[at] = below;
      at = down;
    }
    heap[at] = entry;
  }
}
