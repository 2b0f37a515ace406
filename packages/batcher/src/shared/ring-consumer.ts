import { BatchSizes } from "../batch-sizes.ts";
import { BatcherError } from "../batcher-error.ts";
import { policyFault } from "../checked-policy.ts";
import { systemClock } from "../clock.ts";
import { CostModel } from "../cost-model.ts";
import type { FlushDecision, FlushPolicy, FlushReason } from "../flush-policy.ts";
import { DEADLINE_MARGIN } from "../flush-policy.ts";
import { reasonOf } from "../reason-of.ts";
import { AdaptiveSpin } from "./adaptive-spin.ts";
import type { RingConsumerOptions } from "./consumer-options.ts";
import { checkNames, checkSizes, makeRingPolicy, runLimits } from "./consumer-options.ts";
import type { RingConsumerStats } from "./consumer-stats.ts";
import { ConsumerStats } from "./consumer-stats.ts";
import type { RowsWait } from "./consumer-wait.ts";
import { ConsumerWait, UNTIL_ANY } from "./consumer-wait.ts";
import { HeadBatch } from "./head-batch.ts";
import { KeepAlive } from "./keep-alive.ts";
import { freeBuried, hasBuried, mayHaveBuried } from "./producer-numbers.ts";
import { ANY_DEADLINE, RingHints } from "./ring-hints.ts";
import type { RingSchema, SharedRing } from "./ring-memory.ts";
import { mapControl, shapeOf, sharedNowMs } from "./ring-memory.ts";
import type { RingShape } from "./ring-protocol.ts";
import {
  ABANDONED,
  close,
  CLOSED,
  DRAINING,
  isClosed,
  LIFECYCLE,
  MAX_ROWS,
  raiseLifecycle,
  rowsOf,
  SLEEPING,
  slotAt,
  STATUS_FAILED,
  STATUS_OK,
  STATUS_TIMED_OUT,
  wakeConsumer,
  wordAt,
} from "./ring-protocol.ts";
import type { RingBatch, SlotBatch } from "./slot-batch.ts";
import { SlotBatches } from "./slot-batches.ts";

/** What there is to do: a batch to run, a wait, for more rows or for a run to end, or nothing any more. */
type Next<Schema extends RingSchema> = SlotBatch<Schema> | RowsWait | "runs" | "end";

/**
 * The one thread of a ring that runs its batches: they begin in the order in which they were opened, up to
 * `maxInFlightBatches` at a time, and each is published when its own run ends.
 *
 * `serve` waits without blocking its thread's event loop; `serveBlocking` is for a thread that does nothing else.
 */
export class RingConsumer<Schema extends RingSchema> {
  readonly #shape: RingShape;
  readonly #itemsAlone: boolean;
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #numbers: Int32Array;
  readonly #hints: RingHints;
  readonly #batches: SlotBatches<Schema>;
  readonly #sizes: BatchSizes;
  readonly #cost = new CostModel();
  readonly #policy: FlushPolicy;
  readonly #stats: ConsumerStats<Schema>;
  readonly #keepAlive = new KeepAlive();
  readonly #wait: ConsumerWait;
  readonly #maxInFlight: number;
  readonly #runTimeoutMs: number;
  /** While `serve` waits for the end of a run. */
  #onRunEnd: (() => void) | undefined;
  /** Sequence of the batch to run next, and what is known of it. */
  #head = 0;
  readonly #headBatch: HeadBatch<Schema>;
  #roomSinceMs = sharedNowMs();

  constructor(ring: SharedRing<Schema>, options: RingConsumerOptions = {}) {
    checkNames(options);
    const { control, numbers, hints } = mapControl(ring);
    const { maxInFlightBatches, runTimeoutMs } = runLimits(options, ring);
    this.#shape = shapeOf(ring);
    this.#itemsAlone = ring.itemsAlone;
    this.#control = control;
    this.#numbers = numbers;
    this.#hints = new RingHints(hints);
    this.#maxInFlight = maxInFlightBatches;
    this.#runTimeoutMs = runTimeoutMs;
    this.#batches = new SlotBatches(ring);
    this.#stats = new ConsumerStats(this.#cost, options.hooks);
    checkSizes(options.allowedBatchSizes, ring);
    this.#sizes = new BatchSizes(options.allowedBatchSizes);
    this.#policy = makeRingPolicy(options, ring, this.#cost, this.#sizes);
    this.#headBatch = new HeadBatch(this.#policy, ring.itemsAlone);
    const spin = new AdaptiveSpin(options.spinMicros);
    this.#wait = new ConsumerWait(control, this.#shape, this.#hints, spin, (wait) => this.#isCalled(wait));
  }

  /** Runs batches until the ring is drained or closed. What `run` throws fails its batch only. */
  async serve(run: (batch: RingBatch<Schema>) => Promise<void> | void): Promise<void> {
    // Beside another, or so that it can be given up: at the price of some promises a batch.
    const runsBeside = this.#maxInFlight > 1 || this.#runTimeoutMs < Infinity;
    this.#keepAlive.hold();
    try {
      for (let next = this.#next(); next !== "end"; next = this.#next()) {
        if (next === "runs") {
          await this.#runEnds();
        } else if (!("slot" in next)) {
          await this.#wait.forRows(this.#head, next);
        } else {
          await this.#wait.forCompletion(next.slot, next.reserved);
          if (!this.#start(next)) {
            continue;
          }
          if (next.fault !== undefined) {
            this.#finish(next, next.fault);
            continue;
          }
          if (runsBeside) {
            void this.#runBeside(next, run);
            continue;
          }
          let error: BatcherError | undefined;
          try {
            await run(next);
          } catch (cause) {
            error = runFailed(cause);
          }
          this.#finish(next, error);
        }
      }
      while (this.#stats.inFlightBatches > 0) {
        await this.#runEnds();
      }
    } finally {
      this.#keepAlive.end();
    }
  }

  /**
   * As `serve`, blocking this thread: while it waits, and while it runs. So there is one run at a time, and none can be given
   * up: `maxInFlightBatches` above 1 and `runTimeoutMs` are refused.
   */
  serveBlocking(run: (batch: RingBatch<Schema>) => void): void {
    if (this.#maxInFlight > 1 || this.#runTimeoutMs < Infinity) {
      const message = "serveBlocking: expected neither maxInFlightBatches above 1 nor runTimeoutMs; they are for serve";
      throw new BatcherError("invalid_options", message);
    }
    for (let next = this.#next(); next !== "end"; next = this.#next()) {
      if (next === "runs") {
        // Not here: each has ended when the next is asked for.
        break;
      }
      if (!("slot" in next)) {
        this.#wait.forRowsBlocking(this.#head, next);
        continue;
      }
      this.#wait.forCompletionBlocking(next.slot, next.reserved);
      if (this.#start(next)) {
        let error = next.fault;
        if (error === undefined) {
          try {
            run(next);
          } catch (cause) {
            error = runFailed(cause);
          }
        }
        this.#finish(next, error);
      }
    }
  }

  stats(): RingConsumerStats {
    return this.#stats.snapshot();
  }

  #next(): Next<Schema> {
    if (mayHaveBuried(this.#numbers)) {
      freeBuried(this.#control, this.#shape, this.#numbers);
    }
    const lifecycle = Atomics.load(this.#control, LIFECYCLE);
    if (lifecycle >= CLOSED) {
      return "end";
    }
    if (this.#stats.inFlightBatches >= this.#maxInFlight) {
      return "runs";
    }
    const slot = this.#headSlot();
    const word = wordAt(this.#control, this.#shape, this.#head);
    const rows = rowsOf(word);
    if (isClosed(word)) {
      return this.#take(slot, "full");
    }
    if (rows === 0) {
      if (lifecycle === DRAINING && this.#stats.inFlightBatches > 0) {
        return "runs";
      }
      if (lifecycle === DRAINING) {
        raiseLifecycle(this.#control, this.#shape, CLOSED);
        return "end";
      }
      return UNTIL_ANY;
    }
    if (lifecycle === DRAINING) {
      return this.#take(slot, "drain");
    }
    return this.#decide(slot, rows);
  }

  #decide(slot: number, rows: number): Next<Schema> {
    const head = this.#headBatch;
    head.look(this.#batches.memoryOf(slot), rows);
    const nowMs = sharedNowMs();
    const items = Math.max(1, head.items);
    let decision: FlushDecision;
    try {
      decision = this.#policy.decide({
        nowMs,
        items,
        size: rows,
        oldestArrivalMs: Math.min(nowMs, head.oldestMs),
        roomSinceMs: this.#roomSinceMs,
      });
    } catch (fault) {
      const batch = this.#take(slot, "idle");
      batch.fault = policyFault(fault);
      return batch;
    }
    if (decision.flush) {
      return this.#take(slot, decision.reason);
    }
    const runMs = decision.runMs * DEADLINE_MARGIN;
    const flushByMs = head.earliestDeadlineMs - runMs;
    if (flushByMs <= nowMs) {
      return this.#take(slot, "deadline");
    }
    const moreRows = Math.ceil((decision.untilItems - head.items) * (rows / items));
    const untilRows = Math.min(decision.untilSize, rows + moreRows, MAX_ROWS);
    return {
      untilMs: Math.min(decision.untilMs, flushByMs),
      rows: Math.max(rows + 1, untilRows),
      // No more than the earliest that is known: else rounding might have that one end the wait for itself.
      wakesBeforeMs: Math.min(decision.untilMs + runMs, head.earliestDeadlineMs, Number.MAX_VALUE),
    };
  }

  #take(slot: number, reason: FlushReason): SlotBatch<Schema> {
    const batch = this.#batches.of(slot);
    batch.begin(this.#head, close(this.#control, this.#shape, this.#head), reason);
    return batch;
  }

  /** Once the batch is complete. False if nobody waits for it, and it is over. */
  #start(batch: SlotBatch<Schema>): boolean {
    const nowMs = sharedNowMs();
    const { slot, reserved } = batch;
    const head = this.#headBatch;
    const lastSize = head.take(this.#batches.memoryOf(slot), reserved, nowMs, this.#stats);
    batch.items = head.items;
    batch.size = this.#itemsAlone ? lastSize : reserved;
    batch.paddedSize = this.#sizes.atLeast(batch.size);
    batch.startedMs = nowMs;
    head.reset();
    this.#head = (this.#head + 1) | 0;
    const abandoned = Atomics.load(this.#control, slotAt(this.#shape, slot) + ABANDONED);
    if (batch.size === 0 || abandoned >= reserved) {
      this.#stats.abandoned();
      this.#batches.publish(batch, STATUS_OK);
      return false;
    }
    this.#stats.started(batch);
    return true;
  }

  async #runBeside(batch: SlotBatch<Schema>, run: (batch: RingBatch<Schema>) => Promise<void> | void): Promise<void> {
    const timer =
      this.#runTimeoutMs < Infinity
        ? systemClock.schedule(() => this.#giveUp(batch), this.#runTimeoutMs, false)
        : undefined;
    let error: BatcherError | undefined;
    try {
      await run(batch);
    } catch (cause) {
      error = runFailed(cause);
    }
    if (timer !== undefined) {
      systemClock.cancel(timer);
    }
    if (batch.isGivenUp) {
      this.#batches.runEnded(batch);
    } else {
      this.#finish(batch, error);
      this.#runEnded();
    }
  }

  /** Fails a batch whose run takes too long, and lets that run go on. */
  #giveUp(batch: SlotBatch<Schema>): void {
    const message = `the run of the batch took longer than runTimeoutMs, ${this.#runTimeoutMs}`;
    const error = new BatcherError("run_timeout", message);
    this.#batches.giveUp(batch);
    this.#finish(batch, error);
    batch.abort(error);
    this.#runEnded();
  }

  #finish(batch: SlotBatch<Schema>, error: BatcherError | undefined): void {
    const nowMs = sharedNowMs();
    const runMs = nowMs - batch.startedMs;
    if (error === undefined) {
      this.#cost.observe(batch.paddedSize, runMs);
      this.#hints.tellCost(this.#cost.fixedMs / this.#maxInFlight, this.#cost.perSizeMs / this.#maxInFlight);
    }
    this.#wait.ran(runMs);
    if (this.#stats.inFlightBatches >= this.#maxInFlight) {
      this.#roomSinceMs = nowMs;
    }
    this.#policy.answered(nowMs, batch.items);
    this.#stats.ended(batch, runMs, error);
    const failed = error?.code === "run_timeout" ? STATUS_TIMED_OUT : STATUS_FAILED;
    this.#batches.publish(batch, error === undefined ? STATUS_OK : failed, error?.message);
  }

  /** Until a run that is in flight is over. */
  #runEnds(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRunEnd = resolve;
    });
  }

  /** What is to be done next may have changed. */
  #runEnded(): void {
    this.#onRunEnd?.();
    this.#onRunEnd = undefined;
    wakeConsumer(this.#control);
  }

  /** Whether somebody has something for us that saw us awake: a number to free, an item with a near deadline. */
  #isCalled({ wakesBeforeMs }: RowsWait): boolean {
    if (hasBuried(this.#numbers)) {
      return true;
    }
    if (wakesBeforeMs === -Infinity) {
      return false;
    }
    if (!this.#seesAll()) {
      // One in a hurry may be behind one that is not said yet: who says one from now on wakes us.
      this.#hints.wakesBeforeMs = ANY_DEADLINE;
      // Changes nothing, and has who sees us sleep from now on see the hint. Not a store: we may have been woken since.
      if (Atomics.compareExchange(this.#control, SLEEPING, 1, 1) === 0) {
        return true;
      }
      this.#seesAll();
    }
    return this.#headBatch.earliestDeadlineMs < wakesBeforeMs;
  }

  /** Looks at the items of the next batch; false if some are not said yet. */
  #seesAll(): boolean {
    const rows = rowsOf(wordAt(this.#control, this.#shape, this.#head));
    this.#headBatch.look(this.#batches.memoryOf(this.#headSlot()), rows);
    return this.#headBatch.hasSeen(rows);
  }

  #headSlot(): number {
    return (this.#head >>> 0) % this.#shape.slots;
  }
}

function runFailed(cause: unknown): BatcherError {
  return new BatcherError("run_failed", `the run of the batch failed: ${reasonOf(cause)}`, { cause });
}
