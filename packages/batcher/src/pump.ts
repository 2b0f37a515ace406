import type { Arrivals } from "./arrivals.ts";
import type { BatchMaker } from "./batch-maker.ts";
import { BatcherError } from "./batcher-error.ts";
import { policyFault } from "./checked-policy.ts";
import type { DeadlineTimer } from "./deadline-timer.ts";
import type { EntryQueue } from "./entry-queue.ts";
import type { FlushDecision, FlushPolicy, FlushReason } from "./flush-policy.ts";
import { DEADLINE_MARGIN } from "./flush-policy.ts";
import type { FlushWait } from "./flush-wait.ts";
import type { InFlight } from "./in-flight.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { ResolvedOptions } from "./options.ts";
import type { Outcomes } from "./outcomes.ts";
import type { PlainItems } from "./plain-items.ts";
import { startRun } from "./start-run.ts";

interface Parts<Item, Result> {
  readonly options: ResolvedOptions<Item, Result>;
  readonly policy: FlushPolicy;
  readonly queue: EntryQueue<Item, Result>;
  readonly plain: PlainItems<Item, Result>;
  readonly arrivals: Arrivals;
  readonly deadlines: DeadlineTimer<Result>;
  readonly inFlight: InFlight<Item, Result>;
  readonly lifecycle: Lifecycle;
  /** There is one only while there is room in flight. */
  readonly wait: FlushWait;
  readonly maker: BatchMaker<Item, Result>;
  readonly outcomes: Outcomes<Item, Result>;
}

const RESOLVED = Promise.resolve();

/**
 * When batches are made: at the end of a wait, or of a tick, which is the code that runs now, or with `collectUntil: "poll"` at the end of
 * all ticks that I/O which is ready now brings.
 */
export class Pump<Item, Result> {
  readonly #parts: Parts<Item, Result>;
  // What each item needs, at hand.
  readonly #queue: EntryQueue<Item, Result>;
  readonly #inFlight: InFlight<Item, Result>;
  readonly #wait: FlushWait;
  /** Whether batches are to be made at the end of this tick, or poll. */
  #wanted = false;
  #tickOpen = false;
  #pollOpen = false;
  /** Items to send without asking the policy. */
  #toFlush = 0;

  constructor(parts: Parts<Item, Result>) {
    this.#parts = parts;
    this.#queue = parts.queue;
    this.#inFlight = parts.inFlight;
    this.#wait = parts.wait;
  }

  /** After an item with this deadline has come; `more` items of size 1 have, that are not in the queue yet. */
  consider(more: number, deadlineAtMs: number): void {
    if (this.#isDue(more, deadlineAtMs)) {
      this.schedule();
    }
  }

  /** As `consider`, for a plain item that is the first since others were put into the queue. */
  considerPlain(): void {
    if (!this.#wanted) {
      this.consider(1, Infinity);
    }
  }

  /** Makes batches after all that runs now has run, so that items submitted together go together. */
  schedule(): void {
    this.#wanted = true;
    this.openTick();
  }

  /** Of the first `maxItems` items in the queue, without asking the policy. */
  flush(maxItems: number): void {
    this.#toFlush = Math.min(Math.floor(maxItems), this.#queue.items);
    this.schedule();
  }

  /** An item has left the queue without a batch: what comes later does not take its place in a flush. */
  dropped(): void {
    this.#toFlush = Math.min(this.#toFlush, this.#queue.items);
  }

  openTick(): void {
    if (!this.#tickOpen) {
      this.#tickOpen = true;
      // Not `queueMicrotask`, which in Node makes a resource of each call.
      void RESOLVED.then(this.#endTick);
    }
  }

  readonly #endTick = (): void => {
    this.#tickOpen = false;
    const { plain, arrivals, options } = this.#parts;
    plain.absorb();
    arrivals.endTick();
    this.#wanted ||= this.#queue.items > 0 && this.#isDue(0, Infinity);
    if (!this.#wanted) {
      return;
    }
    if (options.collectUntil === "tick") {
      this.run();
    } else if (!this.#pollOpen) {
      this.#pollOpen = true;
      options.clock.schedule(this.#endPoll, 0, true);
    }
  };

  readonly #endPoll = (): void => {
    this.#pollOpen = false;
    this.run();
  };

  /** Whether there is room for a batch, and no wait goes on with `more` items of size 1 and the newest with this deadline. */
  #isDue(more: number, deadlineAtMs: number): boolean {
    const { items, size } = this.#queue;
    return !this.#wait.goesOn(items + more, size + more, deadlineAtMs) && this.#inFlight.hasRoom;
  }

  /** Makes the batches that are due. Calls the caller's `run`, so never from inside `submit` or `enqueue`. */
  run(): void {
    const { options, plain, arrivals, deadlines, lifecycle } = this.#parts;
    const { clock, policy, maxBatchSize } = options;
    this.#wanted = false;
    plain.absorb();
    this.#wait.stop();
    arrivals.tell();
    // What a run or a hook submits goes after it: other items may come in the same go.
    while (this.#queue.items > 0 && this.#inFlight.hasRoom && !this.#wanted) {
      const nowMs = clock.now();
      const toFlush = lifecycle.state === "draining" ? Infinity : this.#toFlush;
      if (toFlush > 0) {
        const maxItems = policy === "off" ? 1 : toFlush;
        this.#toFlush -= Math.min(this.#toFlush, this.#send("drain", maxItems, maxBatchSize, nowMs));
        continue;
      }
      const decision = this.#decide(nowMs);
      if (decision instanceof BatcherError) {
        this.#send("idle", Infinity, maxBatchSize, nowMs, decision);
        continue;
      }
      if (decision.flush) {
        this.#send(decision.reason, decision.maxItems, decision.maxSize, nowMs);
        continue;
      }
      const flushByMs = deadlines.earliestQueuedMs() - decision.runMs * DEADLINE_MARGIN;
      if (flushByMs <= nowMs) {
        this.#send("deadline", Infinity, maxBatchSize, nowMs);
        continue;
      }
      this.#wait.begin(decision, Math.min(decision.untilMs, flushByMs), nowMs);
      return;
    }
    lifecycle.settle();
  }

  /** What the policy says; an error if it is a caller's and cannot say. */
  #decide(nowMs: number): FlushDecision | BatcherError {
    const queue = this.#queue;
    try {
      return this.#parts.policy.decide({
        nowMs,
        items: queue.items,
        size: queue.size,
        oldestArrivalMs: queue.oldestArrivalMs(),
        roomSinceMs: this.#inFlight.roomSinceMs,
      });
    } catch (fault) {
      return policyFault(fault);
    }
  }

  /** Runs one batch, within these bounds, if anything waits; or fails it with `fault`. Returns how many items it has. */
  #send(reason: FlushReason, maxItems: number, maxSize: number, nowMs: number, fault?: BatcherError): number {
    const { options, maker, outcomes } = this.#parts;
    const batch = maker.make(reason, maxItems, maxSize, nowMs);
    if (batch === undefined) {
      return 0;
    }
    if (fault === undefined) {
      startRun(batch, options, options.clock, outcomes);
    } else {
      outcomes.failed(batch, fault);
    }
    return batch.waiting.length;
  }
}
