import { BatcherError } from "./batcher-error.ts";
import type { Counters } from "./batcher-stats.ts";
import type { Clock } from "./clock.ts";
import { DeadlineTimer } from "./deadline-timer.ts";
import type { Entry, Waiting } from "./entry.ts";
import { failWith } from "./entry.ts";
import type { EntryQueue } from "./entry-queue.ts";
import type { FlushWait } from "./flush-wait.ts";
import type { HookCalls } from "./hook-calls.ts";
import type { InFlight } from "./in-flight.ts";
import type { Lifecycle } from "./lifecycle.ts";

interface Parts<Item, Result> {
  readonly clock: Clock;
  readonly queue: EntryQueue<Item, Result>;
  readonly counters: Counters;
  readonly hooks: HookCalls;
  readonly wait: FlushWait;
  readonly lifecycle: Lifecycle;
  /** An item has left before it had a result. */
  readonly onDropped: () => void;
}

/** How items leave: with a result, or before that, cancelled, expired, evicted or closed. */
export class Departures<Item, Result> {
  readonly deadlines: DeadlineTimer<Result>;
  readonly #queue: EntryQueue<Item, Result>;
  readonly #counters: Counters;
  readonly #hooks: HookCalls;
  readonly #wait: FlushWait;
  readonly #lifecycle: Lifecycle;
  readonly #onDropped: () => void;

  constructor({ clock, queue, counters, hooks, wait, lifecycle, onDropped }: Parts<Item, Result>) {
    this.deadlines = new DeadlineTimer(clock, (entry) => this.expired(entry));
    this.#queue = queue;
    this.#counters = counters;
    this.#hooks = hooks;
    this.#wait = wait;
    this.#lifecycle = lifecycle;
    this.#onDropped = onDropped;
  }

  /** Takes an entry out of everything that holds it, in O(1). */
  leave(entry: Entry<Result>): void {
    const { state, unlisten } = entry;
    if (state === "queued") {
      this.#queue.remove(entry);
    }
    entry.state = "settled";
    entry.batch = undefined;
    unlisten?.();
    this.deadlines.settled(entry, state as "queued" | "running");
  }

  cancel(entry: Entry<Result>, error: BatcherError): void {
    if (entry.state !== "settled") {
      this.#counters[entry.state === "queued" ? "cancelledBeforeRunItems" : "cancelledInRunItems"] += 1;
      this.drop(entry, error);
    }
  }

  expired(entry: Entry<Result>): void {
    this.#counters[entry.state === "queued" ? "expiredBeforeRunItems" : "expiredInRunItems"] += 1;
    const afterMs = entry.deadlineAtMs - entry.arrival.atMs;
    const where = entry.state === "queued" ? "waiting" : "running";
    this.drop(entry, new BatcherError("deadline_exceeded", `the deadline of ${afterMs} ms passed while ${where}`));
  }

  /** As an entry leaves the queue for a batch. */
  runs(entry: Entry<Result>): void {
    this.deadlines.runs(entry);
  }

  readonly evict = (waiting: Waiting<Result>, error: BatcherError): void => {
    this.#counters.evictedItems += 1;
    this.drop(waiting, error);
  };

  /** Rejects everything that waits or runs, and aborts the signals of what runs. */
  close(inFlight: InFlight<Item, Result>, error: BatcherError): void {
    const fail = failWith<Result>(error);
    for (let waiting = this.#queue.leastUrgent(); waiting !== undefined; waiting = this.#queue.leastUrgent()) {
      this.#counters.closedItems += 1;
      this.drop(waiting, error, fail);
    }
    for (const batch of inFlight.batches) {
      batch.over = true;
      inFlight.cancelTimer(batch);
      for (const waiting of batch.waiting) {
        if (typeof waiting === "function" || waiting.state !== "settled") {
          this.#counters.closedItems += 1;
          this.drop(waiting, error, fail);
        }
      }
      batch.abort(error);
    }
    inFlight.batches = [];
    this.#wait.stop();
    this.deadlines.stop();
    this.#lifecycle.settle();
  }

  /** Rejects what waits or runs; of plain items that wait only the least urgent. */
  drop(
    waiting: Waiting<Result>,
    error: BatcherError,
    fail: (waiting: Waiting<Result>) => void = failWith<Result>(error),
  ): void {
    if (typeof waiting === "function") {
      if (this.#queue.leastUrgent() === waiting) {
        this.#queue.popPlain();
      }
    } else {
      if (waiting.state === "settled") {
        return;
      }
      const { batch } = waiting;
      this.leave(waiting);
      batch?.entryLeft();
    }
    this.#onDropped();
    fail(waiting);
    this.#hooks.itemDropped(error);
    if (this.#queue.items === 0) {
      this.#wait.stop();
    }
    this.#lifecycle.settle();
  }
}
