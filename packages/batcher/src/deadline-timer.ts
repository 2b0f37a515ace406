import type { Clock, TimerHandle } from "./clock.ts";
import { DeadlineHeap } from "./deadline-heap.ts";
import type { Entry } from "./entry.ts";

/** The deadlines of what waits and of what runs, and the one timer for the earliest of them. */
export class DeadlineTimer<Result> {
  readonly #clock: Clock;
  readonly #expire: (entry: Entry<Result>) => void;
  readonly #queued = new DeadlineHeap<Entry<Result>>("queued");
  readonly #running = new DeadlineHeap<Entry<Result>>("running");
  #timer: TimerHandle;
  #timerAtMs = Infinity;

  /** `expire` must take the entry out of its state. */
  constructor(clock: Clock, expire: (entry: Entry<Result>) => void) {
    this.#clock = clock;
    this.#expire = expire;
  }

  /** An entry with a deadline waits. */
  queued(entry: Entry<Result>): void {
    this.#queued.push(entry);
    this.#arm(entry.deadlineAtMs, entry.arrival.atMs);
  }

  /** An entry that waited runs. */
  runs(entry: Entry<Result>): void {
    if (entry.deadlineAtMs < Infinity) {
      this.#queued.left();
      this.#running.push(entry);
    }
  }

  /** An entry is settled that was in this state. */
  settled(entry: Entry<Result>, before: "queued" | "running"): void {
    if (entry.deadlineAtMs < Infinity) {
      (before === "queued" ? this.#queued : this.#running).left();
      if (this.#queued.live + this.#running.live === 0) {
        // It would keep the process alive, for nobody.
        this.stop();
      }
    }
  }

  /** The earliest deadline of what waits; Infinity without one. */
  earliestQueuedMs(): number {
    return this.#queued.earliestMs();
  }

  stop(): void {
    if (this.#timerAtMs < Infinity) {
      this.#clock.cancel(this.#timer);
      this.#timerAtMs = Infinity;
    }
  }

  #arm(atMs: number, nowMs: number): void {
    if (atMs < this.#timerAtMs) {
      this.stop();
      this.#timerAtMs = atMs;
      this.#timer = this.#clock.schedule(this.#onTime, atMs - nowMs, false);
    }
  }

  readonly #onTime = (): void => {
    this.#timerAtMs = Infinity;
    const nowMs = this.#clock.now();
    for (const deadlines of [this.#queued, this.#running]) {
      for (let entry = deadlines.peek(); entry !== undefined && entry.deadlineAtMs <= nowMs; entry = deadlines.peek()) {
        this.#expire(entry);
      }
    }
    const nextMs = Math.min(this.#queued.earliestMs(), this.#running.earliestMs());
    if (nextMs < Infinity) {
      this.#arm(nextMs, nowMs);
    }
  };
}
