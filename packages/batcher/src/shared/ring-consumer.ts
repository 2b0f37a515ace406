import { BatchSizes } from "../batch-sizes.ts";
import { BatcherError } from "../batcher-error.ts";
import type { BatchInfo } from "../batcher-hooks.ts";
import { Counters } from "../batcher-stats.ts";
import { CostModel } from "../cost-model.ts";
import type { FlushPolicy, FlushReason } from "../flush-policy.ts";
import { AdaptiveSpin } from "./adaptive-spin.ts";
import type { RingConsumerOptions } from "./consumer-options.ts";
import { checkSizes, makeRingPolicy } from "./consumer-options.ts";
import type { RowsWait } from "./consumer-wait.ts";
import { ConsumerWait, UNTIL_ANY } from "./consumer-wait.ts";
import { HeadBatch } from "./head-batch.ts";
import { KeepAlive } from "./keep-alive.ts";
import { freeBuried, hasBuried, mayHaveBuried } from "./producer-numbers.ts";
import { RingHints } from "./ring-hints.ts";
import type { RingSchema, SharedRing, SlotMemory, SlotViews } from "./ring-memory.ts";
import { mapControl, mapSlots, shapeOf, sharedNowMs, writeMessage } from "./ring-memory.ts";
import type { RingShape } from "./ring-protocol.ts";
import {
  ABANDONED,
  close,
  CLOSED,
  DRAINING,
  isClosed,
  LIFECYCLE,
  MAX_ROWS,
  publish,
  raiseLifecycle,
  rowsOf,
  slotAt,
  STATUS_FAILED,
  STATUS_OK,
  takeParticipants,
  wordAt,
} from "./ring-protocol.ts";

/** A batch of the ring, about to run. The object is used again for the slot's next batch. */
export interface RingBatch<Schema extends RingSchema> extends SlotViews<Schema> {
  readonly slot: number;
  /** Rows that hold items: the first `size`. */
  readonly size: number;
  /** Requests that these are of. */
  readonly items: number;
  /** The size to pad to; rows from `size` on hold anything. */
  readonly paddedSize: number;
  readonly flushReason: FlushReason;
}

export interface RingConsumerStats {
  readonly batches: Readonly<Record<FlushReason, number>>;
  readonly failedBatches: number;
  /** Batches that were not run, as all their callers had left. */
  readonly abandonedBatches: number;
  readonly batchedItems: number;
  readonly batchedSize: number;
  readonly paddedSize: number;
  readonly hookErrors: number;
  readonly queueDelay: { readonly counts: readonly number[]; readonly sumMs: number };
  readonly cost: { readonly fixedMicros: number; readonly perSizeMicros: number } | undefined;
}

/** A run is expected to take this much of what was learnt when a deadline is near, as by `Batcher`. */
const DEADLINE_MARGIN = 1.25;

interface MutableBatch {
  items: number;
  size: number;
  paddedSize: number;
  flushReason: FlushReason;
}

/** What there is to do: a batch to run, the end, or a wait. */
type Next<Schema extends RingSchema> = (RingBatch<Schema> & MutableBatch) | "end" | RowsWait;

/**
 * The one thread of a ring that runs its batches, in the order in which they were opened, one at a time.
 *
 * `serve` waits without blocking its thread's event loop; `serveBlocking` is for a thread that does nothing else.
 */
export class RingConsumer<Schema extends RingSchema> {
  readonly #shape: RingShape;
  readonly #itemsAlone: boolean;
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #numbers: Int32Array;
  readonly #hints: RingHints;
  readonly #slots: SlotMemory<Schema>[];
  readonly #batches: (RingBatch<Schema> & MutableBatch)[];
  readonly #sizes: BatchSizes;
  readonly #cost = new CostModel();
  readonly #policy: FlushPolicy;
  readonly #hooks: NonNullable<RingConsumerOptions["hooks"]>;
  readonly #counters = new Counters();
  readonly #keepAlive = new KeepAlive();
  readonly #wait: ConsumerWait;
  #abandonedBatches = 0;
  #batchedItems = 0;
  /** Sequence of the batch to run next, and what is known of it. */
  #head = 0;
  readonly #headBatch: HeadBatch<Schema>;
  #roomSinceMs = sharedNowMs();
  #batchCount = 0;

  constructor(ring: SharedRing<Schema>, options: RingConsumerOptions = {}) {
    const { control, numbers, hints } = mapControl(ring);
    this.#shape = shapeOf(ring);
    this.#itemsAlone = ring.itemsAlone;
    this.#control = control;
    this.#numbers = numbers;
    this.#hints = new RingHints(hints);
    this.#slots = mapSlots(ring);
    this.#hooks = options.hooks ?? {};
    checkSizes(options.allowedBatchSizes, ring);
    this.#sizes = new BatchSizes(options.allowedBatchSizes);
    this.#policy = makeRingPolicy(options, ring, this.#cost, this.#sizes);
    this.#headBatch = new HeadBatch(this.#policy, ring.itemsAlone);
    const spin = new AdaptiveSpin(options.spinMicros);
    this.#wait = new ConsumerWait(control, this.#shape, this.#hints, spin, (wait) => this.#isCalled(wait));
    this.#batches = this.#slots.map(({ views }, slot) => ({
      ...views,
      slot,
      items: 0,
      size: 0,
      paddedSize: 0,
      flushReason: "idle" as FlushReason,
    }));
  }

  /** Runs batches until the ring is drained or closed. What `run` throws fails its batch only. */
  async serve(run: (batch: RingBatch<Schema>) => Promise<void> | void): Promise<void> {
    this.#keepAlive.hold();
    try {
      for (let next = this.#next(); next !== "end"; next = this.#next()) {
        if (!("slot" in next)) {
          await this.#wait.forRows(this.#head, next);
          continue;
        }
        await this.#wait.forCompletion(next.slot, next.size);
        const startedMs = sharedNowMs();
        if (this.#start(next, startedMs)) {
          let error: BatcherError | undefined;
          try {
            await run(next);
          } catch (cause) {
            error = runFailed(cause);
          }
          this.#finish(next, startedMs, error);
        }
      }
    } finally {
      this.#keepAlive.end();
    }
  }

  /** As `serve`, blocking this thread: while it waits, and while it runs. */
  serveBlocking(run: (batch: RingBatch<Schema>) => void): void {
    for (let next = this.#next(); next !== "end"; next = this.#next()) {
      if (!("slot" in next)) {
        this.#wait.forRowsBlocking(this.#head, next);
        continue;
      }
      this.#wait.forCompletionBlocking(next.slot, next.size);
      const startedMs = sharedNowMs();
      if (this.#start(next, startedMs)) {
        let error: BatcherError | undefined;
        try {
          run(next);
        } catch (cause) {
          error = runFailed(cause);
        }
        this.#finish(next, startedMs, error);
      }
    }
  }

  stats(): RingConsumerStats {
    const { batches, failedBatches, batchedSize, paddedSize, hookErrors, delayCounts, delaySumMs } = this.#counters;
    return {
      batches: { ...batches },
      failedBatches,
      abandonedBatches: this.#abandonedBatches,
      batchedItems: this.#batchedItems,
      batchedSize,
      paddedSize,
      hookErrors,
      queueDelay: { counts: [...delayCounts], sumMs: delaySumMs },
      cost: this.#cost.known
        ? { fixedMicros: this.#cost.fixedMs * 1000, perSizeMicros: this.#cost.perSizeMs * 1000 }
        : undefined,
    };
  }

  #next(): Next<Schema> {
    if (mayHaveBuried(this.#numbers)) {
      freeBuried(this.#control, this.#shape, this.#numbers);
    }
    const lifecycle = Atomics.load(this.#control, LIFECYCLE);
    if (lifecycle >= CLOSED) {
      return "end";
    }
    const slot = this.#headSlot();
    const word = wordAt(this.#control, this.#shape, this.#head);
    const rows = rowsOf(word);
    if (isClosed(word)) {
      return this.#take(slot, "full");
    }
    if (rows === 0) {
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
    head.look(this.#slots[slot] as SlotMemory<Schema>, rows);
    const nowMs = sharedNowMs();
    const items = Math.max(1, head.items);
    const decision = this.#policy.decide({
      nowMs,
      items,
      size: rows,
      oldestArrivalMs: Math.min(nowMs, head.oldestMs),
      roomSinceMs: this.#roomSinceMs,
    });
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
      wakesBeforeMs: Math.min(decision.untilMs + runMs, head.earliestDeadlineMs),
    };
  }

  #take(slot: number, reason: FlushReason): RingBatch<Schema> & MutableBatch {
    const size = close(this.#control, this.#shape, this.#head);
    const batch = this.#batches[slot] as RingBatch<Schema> & MutableBatch;
    batch.size = size;
    batch.paddedSize = this.#sizes.atLeast(size);
    batch.flushReason = reason;
    return batch;
  }

  /** Once the batch is complete. False if nobody waits for it, and it is over. */
  #start(batch: RingBatch<Schema> & MutableBatch, nowMs: number): boolean {
    const { slot, size: reserved } = batch;
    const head = this.#headBatch;
    const lastSize = head.take(this.#slots[slot] as SlotMemory<Schema>, reserved, nowMs, this.#counters);
    batch.items = head.items;
    head.reset();
    if (this.#itemsAlone) {
      batch.size = lastSize;
      batch.paddedSize = this.#sizes.atLeast(lastSize);
    }
    const { size } = batch;
    if (size === 0 || Atomics.load(this.#control, slotAt(this.#shape, slot) + ABANDONED) >= reserved) {
      this.#abandonedBatches += 1;
      this.#publish(slot, STATUS_OK);
      return false;
    }
    this.#batchCount += 1;
    this.#batchedItems += batch.items;
    this.#counters.batches[batch.flushReason] += 1;
    this.#counters.batchedSize += size;
    this.#counters.paddedSize += batch.paddedSize;
    if (this.#hooks.onBatchStart !== undefined) {
      this.#hook(() => this.#hooks.onBatchStart?.(this.#info(batch, nowMs)));
    }
    return true;
  }

  #finish(batch: RingBatch<Schema>, startedMs: number, error: BatcherError | undefined): void {
    const nowMs = sharedNowMs();
    const { slot } = batch;
    if (error === undefined) {
      this.#cost.observe(batch.paddedSize, nowMs - startedMs);
      this.#hints.tellCost(this.#cost.fixedMs, this.#cost.perSizeMs);
    } else {
      this.#counters.failedBatches += 1;
      writeMessage((this.#slots[slot] as SlotMemory<Schema>).message, error.message);
    }
    this.#wait.ran(nowMs - startedMs);
    this.#roomSinceMs = nowMs;
    this.#policy.answered(nowMs, batch.items);
    if (this.#hooks.onBatchEnd !== undefined) {
      this.#hook(() => this.#hooks.onBatchEnd?.(this.#info(batch, startedMs), nowMs - startedMs, error));
    }
    this.#publish(slot, error === undefined ? STATUS_OK : STATUS_FAILED);
  }

  #publish(slot: number, status: number): void {
    const participants = takeParticipants(this.#control, this.#shape, slot);
    publish(this.#control, this.#shape, this.#head, participants, status);
    this.#head = (this.#head + 1) | 0;
  }

  /** Whether somebody has something for us that saw us awake: a number to free, an item with a near deadline. */
  #isCalled({ wakesBeforeMs }: RowsWait): boolean {
    if (hasBuried(this.#numbers)) {
      return true;
    }
    if (wakesBeforeMs === -Infinity) {
      return false;
    }
    const rows = rowsOf(wordAt(this.#control, this.#shape, this.#head));
    this.#headBatch.look(this.#slots[this.#headSlot()] as SlotMemory<Schema>, rows);
    return this.#headBatch.earliestDeadlineMs < wakesBeforeMs;
  }

  #headSlot(): number {
    return (this.#head >>> 0) % this.#shape.slots;
  }

  #info(batch: RingBatch<Schema>, startedAtMs: number): BatchInfo {
    return {
      id: this.#batchCount,
      items: batch.items,
      size: batch.size,
      paddedSize: batch.paddedSize,
      flushReason: batch.flushReason,
      startedAtMs,
      oldestWaitMs: startedAtMs - ((this.#slots[batch.slot] as SlotMemory<Schema>).arrivals[0] as number),
      expectedRunMs: this.#cost.known ? this.#cost.runMs(batch.paddedSize) : undefined,
      inFlightBatches: 1,
      queuedItems: 0,
    };
  }

  #hook(call: () => void): void {
    try {
      call();
    } catch {
      this.#counters.hookErrors += 1;
    }
  }
}

function runFailed(cause: unknown): BatcherError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new BatcherError("run_failed", `the run of the batch failed: ${reason}`, { cause });
}
