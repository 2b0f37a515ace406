import { AdaptivePolicy } from "../adaptive-policy.ts";
import { BatchSizes } from "../batch-sizes.ts";
import { BatcherError } from "../batcher-error.ts";
import type { BatcherHooks, BatchInfo } from "../batcher-hooks.ts";
import { Counters } from "../batcher-stats.ts";
import { systemClock } from "../clock.ts";
import { CostModel } from "../cost-model.ts";
import type { FlushPolicy, FlushReason } from "../flush-policy.ts";
import { OffPolicy } from "../flush-policy.ts";
import type { BatchingPolicy } from "../options.ts";
import { WindowPolicy } from "../window-policy.ts";
import { AdaptiveSpin } from "./adaptive-spin.ts";
import { KeepAlive } from "./keep-alive.ts";
import type { RingSchema, SharedRing, SlotMemory, SlotViews } from "./ring-memory.ts";
import { mapSlots, shapeOf, sharedNowMs, writeMessage } from "./ring-memory.ts";
import type { RingShape } from "./ring-protocol.ts";
import {
  ABANDONED,
  close,
  CLOSED,
  COMPLETION,
  DRAINING,
  fallAsleep,
  isClosed,
  isComplete,
  LIFECYCLE,
  publish,
  raiseLifecycle,
  rowsOf,
  SLEEPING,
  slotAt,
  STATUS_FAILED,
  STATUS_OK,
  takeParticipants,
  tellLooks,
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

export interface RingConsumerOptions {
  /** As of `Batcher`. `off` is for rings that are made with `itemsAlone`, and the only one for them. Default: that, or `adaptive`. */
  readonly policy?: BatchingPolicy | FlushPolicy;
  /** Policy `window`: microseconds from the arrival of the oldest item. Default 1000. */
  readonly batchTimeoutMicros?: number;
  /** Policy `adaptive`: see `Batcher`. */
  readonly latencyBudgetMs?: number;
  /**
   * Sizes that batches are padded to, rising; the last must hold a batch of the ring's `maxBatchSize`, and there must be rows
   * for it: `maxBatchSize + paddingRows`. Default: no padding.
   */
  readonly allowedBatchSizes?: readonly number[];
  /**
   * `serveBlocking`: where items tend to come that soon, the thread looks for them up to so many microseconds before it
   * sleeps. 0: it never does. Default 20, about what a wake costs.
   */
  readonly spinMicros?: number;
  readonly hooks?: Pick<BatcherHooks, "onBatchStart" | "onBatchEnd">;
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

/** Below this a wait is spent looking: going to sleep and waking takes as long. */
const SPIN_MS = 0.03;
/** As `SPIN_MS`, for a thread that has an event loop to run. */
const POLL_MS = 2;
/** A run is quick that takes no longer, milliseconds: a producer can look for its results meanwhile. */
const QUICK_RUN_MS = 0.003;
/** Of so many runs most must be. */
const MOST_QUICK_RUNS = 8;
/** How often a batch is looked at again that waits for rows of producers which may have died. */
const RECHECK_MS = 1;

interface MutableBatch {
  items: number;
  size: number;
  paddedSize: number;
  flushReason: FlushReason;
}

/** What there is to do: a batch to run, the end, or a wait until a time or a number of rows. */
type Next<Schema extends RingSchema> =
  | (RingBatch<Schema> & MutableBatch)
  | "end"
  | { readonly untilMs: number; readonly rows: number };

/**
 * The one thread of a ring that runs its batches, in the order in which they were opened, one at a time.
 *
 * `serve` waits without blocking its thread's event loop; `serveBlocking` is for a thread that does nothing else.
 */
export class RingConsumer<Schema extends RingSchema> {
  readonly #shape: RingShape;
  readonly #itemsAlone: boolean;
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #slots: SlotMemory<Schema>[];
  readonly #batches: (RingBatch<Schema> & MutableBatch)[];
  readonly #sizes: BatchSizes;
  readonly #cost = new CostModel();
  readonly #policy: FlushPolicy;
  readonly #hooks: NonNullable<RingConsumerOptions["hooks"]>;
  readonly #counters = new Counters();
  readonly #keepAlive = new KeepAlive();
  readonly #spin: AdaptiveSpin;
  /** How many of the last runs were quick: rises with each that was, falls with each that was not. */
  #quickRuns = 0;
  #toldLooks = false;
  #abandonedBatches = 0;
  #batchedItems = 0;
  /** Sequence of the batch to run next. */
  #head = 0;
  /** Of the head: rows whose arrival the policy has heard of, the requests that these are, and when the first came. */
  #seenRows = 0;
  #seenItems = 0;
  #oldestMs = Infinity;
  #roomSinceMs = sharedNowMs();
  #batchCount = 0;

  constructor(ring: SharedRing<Schema>, options: RingConsumerOptions = {}) {
    this.#shape = shapeOf(ring);
    this.#itemsAlone = ring.itemsAlone;
    this.#spin = new AdaptiveSpin(options.spinMicros);
    this.#control = new Int32Array(ring.control);
    this.#slots = mapSlots(ring);
    this.#hooks = options.hooks ?? {};
    this.#sizes = new BatchSizes(options.allowedBatchSizes);
    checkSizes(options.allowedBatchSizes, ring);
    this.#policy = makePolicy(options, ring, this.#cost, this.#sizes);
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
          await this.#sleep(next);
          continue;
        }
        await this.#complete(next);
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
        this.#sleepBlocking(next);
        continue;
      }
      this.#completeBlocking(next);
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
      return { untilMs: Infinity, rows: 1 };
    }
    if (lifecycle === DRAINING) {
      return this.#take(slot, "drain");
    }
    this.#look(slot, rows);
    const nowMs = sharedNowMs();
    const decision = this.#policy.decide({
      nowMs,
      items: Math.max(1, this.#seenItems),
      size: rows,
      oldestArrivalMs: Math.min(nowMs, this.#oldestMs),
      roomSinceMs: this.#roomSinceMs,
    });
    if (decision.flush) {
      return this.#take(slot, decision.reason);
    }
    const meanSize = rows / Math.max(1, this.#seenItems);
    const moreRows = Math.ceil((decision.untilItems - this.#seenItems) * meanSize);
    return { untilMs: decision.untilMs, rows: Math.max(rows + 1, Math.min(decision.untilSize, rows + moreRows)) };
  }

  #take(slot: number, reason: FlushReason): RingBatch<Schema> & MutableBatch {
    const size = close(this.#control, this.#shape, this.#head);
    const batch = this.#batches[slot] as RingBatch<Schema> & MutableBatch;
    batch.size = size;
    batch.paddedSize = this.#sizes.atLeast(size);
    batch.flushReason = reason;
    return batch;
  }

  /** Tells the policy of the arrivals among the head's first `rows` rows that it has not heard of. */
  #look(slot: number, rows: number): void {
    const { sizes, arrivals } = this.#slots[slot] as SlotMemory<Schema>;
    while (this.#seenRows < rows) {
      const size = Atomics.load(sizes, this.#seenRows);
      if (size === 0) {
        // Reserved and not said yet how large.
        break;
      }
      const arrivedMs = arrivals[this.#seenRows] as number;
      this.#oldestMs = Math.min(this.#oldestMs, arrivedMs);
      this.#policy.arrived(arrivedMs, 1, size);
      this.#seenItems += 1;
      this.#seenRows += this.#itemsAlone ? 1 : size;
    }
  }

  /** Once the batch is complete. False if nobody waits for it, and it is over. */
  #start(batch: RingBatch<Schema> & MutableBatch, nowMs: number): boolean {
    const { slot, size: reserved } = batch;
    const { sizes, arrivals } = this.#slots[slot] as SlotMemory<Schema>;
    let rows = 0;
    for (let row = 0; row < reserved;) {
      rows = Atomics.exchange(sizes, row, 0);
      if (rows > 0) {
        const arrivedMs = arrivals[row] as number;
        this.#counters.delayed(Math.max(0, nowMs - arrivedMs), 1);
        if (row >= this.#seenRows) {
          this.#policy.arrived(arrivedMs, 1, rows);
          this.#seenItems += 1;
        }
      }
      // A row without a size is of a producer that died before it said one.
      row += Math.max(1, rows);
    }
    batch.items = this.#seenItems;
    if (this.#itemsAlone) {
      batch.size = rows;
      batch.paddedSize = this.#sizes.atLeast(rows);
    }
    const { size } = batch;
    this.#seenRows = 0;
    this.#seenItems = 0;
    this.#oldestMs = Infinity;
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
    } else {
      this.#counters.failedBatches += 1;
      writeMessage((this.#slots[slot] as SlotMemory<Schema>).message, error.message);
    }
    const quick = nowMs - startedMs <= QUICK_RUN_MS;
    this.#quickRuns = Math.min(MOST_QUICK_RUNS, Math.max(0, this.#quickRuns + (quick ? 1 : -1)));
    if (!this.#runsQuickly()) {
      this.#tellLooks(false);
    }
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

  async #sleep({ untilMs, rows }: { readonly untilMs: number; readonly rows: number }): Promise<void> {
    const waitMs = untilMs - sharedNowMs();
    if (waitMs < POLL_MS) {
      // Timers are too coarse for this: look again after what I/O is ready.
      await new Promise<void>((resolve) => {
        systemClock.schedule(resolve, 0, true);
      });
      return;
    }
    if (fallAsleep(this.#control, this.#shape, this.#head, rows) && !this.#ended()) {
      const { value } = Atomics.waitAsync(this.#control, SLEEPING, 1, waitMs - POLL_MS / 2);
      await value;
      Atomics.store(this.#control, SLEEPING, 0);
    }
  }

  #sleepBlocking({ untilMs, rows }: { readonly untilMs: number; readonly rows: number }): void {
    const waitMs = untilMs === Infinity ? Infinity : untilMs - sharedNowMs();
    if (waitMs < SPIN_MS) {
      return;
    }
    if (waitMs === Infinity && this.#spin.worthwhile() && this.#lookForRows(rows)) {
      return;
    }
    if (!fallAsleep(this.#control, this.#shape, this.#head, rows) || this.#ended()) {
      return;
    }
    Atomics.wait(this.#control, SLEEPING, 1, waitMs);
    Atomics.store(this.#control, SLEEPING, 0);
  }

  #lookForRows(rows: number): boolean {
    this.#tellLooks(this.#runsQuickly());
    const found = this.#spin.look(() => {
      const word = wordAt(this.#control, this.#shape, this.#head);
      return isClosed(word) || rowsOf(word) >= rows;
    });
    if (!this.#spin.looks) {
      this.#tellLooks(false);
    }
    return found;
  }

  #runsQuickly(): boolean {
    return this.#quickRuns > MOST_QUICK_RUNS / 2;
  }

  #tellLooks(looks: boolean): void {
    if (looks !== this.#toldLooks) {
      this.#toldLooks = looks;
      tellLooks(this.#control, looks);
    }
  }

  /** Asked after saying that we sleep: who ends the ring wakes those that sleep then. */
  #ended(): boolean {
    const lifecycle = Atomics.load(this.#control, LIFECYCLE);
    if (lifecycle < DRAINING) {
      return false;
    }
    Atomics.store(this.#control, SLEEPING, 0);
    return true;
  }

  async #complete(batch: RingBatch<Schema>): Promise<void> {
    const at = slotAt(this.#shape, batch.slot) + COMPLETION;
    for (;;) {
      const seen = Atomics.load(this.#control, at);
      if (isComplete(this.#control, this.#shape, batch.slot, batch.size)) {
        return;
      }
      const { value } = Atomics.waitAsync(this.#control, at, seen, RECHECK_MS);
      await value;
    }
  }

  #completeBlocking(batch: RingBatch<Schema>): void {
    const at = slotAt(this.#shape, batch.slot) + COMPLETION;
    for (;;) {
      const seen = Atomics.load(this.#control, at);
      if (isComplete(this.#control, this.#shape, batch.slot, batch.size)) {
        return;
      }
      Atomics.wait(this.#control, at, seen, RECHECK_MS);
    }
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

function checkSizes(sizes: readonly number[] | undefined, { maxBatchSize, paddingRows }: SharedRing): void {
  if (sizes === undefined) {
    return;
  }
  const rising = sizes.every((size, i) => Number.isInteger(size) && size > (sizes[i - 1] ?? 0));
  const last = sizes.at(-1) ?? 0;
  if (!rising || last < maxBatchSize || last > maxBatchSize + paddingRows) {
    const end =
      paddingRows === 0
        ? `maxBatchSize (${maxBatchSize})`
        : `one from maxBatchSize (${maxBatchSize}) to maxBatchSize + paddingRows (${maxBatchSize + paddingRows})`;
    throw new BatcherError(
      "invalid_options",
      `allowedBatchSizes: expected rising whole numbers that end with ${end}, received [${sizes.join(", ")}]`,
    );
  }
}

function makePolicy(
  options: RingConsumerOptions,
  { itemsAlone, maxBatchSize }: SharedRing,
  cost: CostModel,
  sizes: BatchSizes,
): FlushPolicy {
  const { policy = itemsAlone ? "off" : "adaptive", batchTimeoutMicros = 1000, latencyBudgetMs = Infinity } = options;
  if ((policy === "off") !== itemsAlone) {
    const expected = itemsAlone
      ? "off, as the ring is made with itemsAlone"
      : "window, adaptive or a FlushPolicy, as the ring is made without itemsAlone";
    const received = typeof policy === "string" ? policy : "a policy of your own";
    throw new BatcherError("invalid_options", `policy: expected ${expected}, received ${received}`);
  }
  // A batch is a stretch of its slot's rows, so all of it runs: padded up, whatever that costs.
  switch (policy) {
    case "off":
      return new OffPolicy();
    case "window":
      return new WindowPolicy(cost, maxBatchSize, sizes, "padUp", batchTimeoutMicros / 1000);
    case "adaptive":
      return new AdaptivePolicy(cost, maxBatchSize, sizes, "padUp", latencyBudgetMs);
    default:
      return policy;
  }
}
