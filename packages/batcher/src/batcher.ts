import { AdaptivePolicy } from "./adaptive-policy.ts";
import { BatchSizes } from "./batch-sizes.ts";
import { BatcherError } from "./batcher-error.ts";
import type { BatcherHooks } from "./batcher-hooks.ts";
import type { BatcherStats } from "./batcher-stats.ts";
import { Counters } from "./batcher-stats.ts";
import type { Clock, TimerHandle } from "./clock.ts";
import { CostModel } from "./cost-model.ts";
import { DeadlineHeap } from "./deadline-heap.ts";
import type { Arrival } from "./entry.ts";
import { Entry } from "./entry.ts";
import type { Taken } from "./entry-queue.ts";
import { EntryQueue, MAX_PRIORITY } from "./entry-queue.ts";
import type { FlushDecision, FlushPolicy, FlushReason } from "./flush-policy.ts";
import { OffPolicy } from "./flush-policy.ts";
import type { BatcherOptions, ResolvedOptions } from "./options.ts";
import { resolveOptions } from "./options.ts";
import { BatchView, RunningBatch } from "./running-batch.ts";
import { SplitItem } from "./split-item.ts";
import { WindowPolicy } from "./window-policy.ts";

/** What a caller may say about an item. */
export interface SubmitOptions {
  /** Takes the item out when aborted: it is not run, if it was still waiting, and rejects with `cancelled`. */
  readonly signal?: AbortSignal | undefined;
  /** Rejects with `deadline_exceeded` when there is no result after this many milliseconds from now. */
  readonly deadlineMs?: number | undefined;
  /** A whole number from 0, the default, to 9. The higher goes first. */
  readonly priority?: number | undefined;
}

/** A run is expected to take this much of what was learnt when a deadline is near. */
const DEADLINE_MARGIN = 1.25;
const NO_OPTIONS: SubmitOptions = {};

/**
 * What `capture` was called with last. It serves all promises, where a closure for each would cost as much as they do. A
 * new object in each pump, as what is written into a young object costs the garbage collector nothing.
 */
let captured: Captured = makeCaptured();

interface Captured {
  resolve: (result: never) => void;
  reject: (error: unknown) => void;
}

function makeCaptured(): Captured {
  return { resolve() {}, reject() {} };
}

function capture(resolve: (result: never) => void, reject: (error: unknown) => void): void {
  captured.resolve = resolve;
  captured.reject = reject;
}

/**
 * Collects single items into batches and gives each caller its own result.
 *
 * Invariants:
 * - An entry is in the queue iff its state is `queued`, and in exactly one running batch iff it is `running`.
 * - Each submitted item's promise settles exactly once, whatever callbacks do.
 * - `run` is called only from `#pump`, so never from inside `submit`, and never with more than
 *   `maxInFlightBatches` outcomes missing.
 * - The wait timer is armed iff `#waiting` is set, and `#waiting` is set only while there is room in flight.
 */
export class Batcher<Item, Result> {
  readonly #options: ResolvedOptions<Item, Result>;
  readonly #clock: Clock;
  readonly #sizes: BatchSizes;
  readonly #cost = new CostModel();
  readonly #policy: FlushPolicy;
  readonly #queue: EntryQueue<Item, Result>;
  readonly #queuedDeadlines = new DeadlineHeap<Entry<Result>>("queued");
  readonly #runningDeadlines = new DeadlineHeap<Entry<Result>>("running");
  #running: RunningBatch<Item, Result>[] = [];
  readonly #counters = new Counters();

  #state: "open" | "draining" | "closed" = "open";
  #batches = 0;
  /** Items to send without asking the policy. */
  #toFlush = 0;
  #roomSinceMs: number;
  #pumpScheduled = false;
  /** The last time at which items came. */
  #arrival: Arrival = { atMs: -Infinity, items: 0, size: 0 };
  /** The time of the first of the items that the scheduled pump will see; valid iff one is scheduled. */
  #tick: Arrival = this.#arrival;
  #waiting: (FlushDecision & { readonly flush: false }) | undefined;
  #waitTimer: TimerHandle;
  #waitTimerAtMs = Infinity;
  #deadlineTimer: TimerHandle;
  #deadlineTimerAtMs = Infinity;
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  /** Throws a `BatcherError` with code `invalid_options` that names every problem. */
  constructor(options: BatcherOptions<Item, Result>) {
    const resolved = resolveOptions(options);
    this.#options = resolved;
    this.#clock = resolved.clock;
    this.#sizes = new BatchSizes(resolved.allowedBatchSizes);
    this.#queue = new EntryQueue(resolved.agingMs);
    this.#policy = makePolicy(resolved, this.#cost, this.#sizes);
    this.#roomSinceMs = this.#clock.now();
  }

  /**
   * Takes an item; the promise settles with its own result, or rejects with a `BatcherError` (see `code`). Never throws.
   * The item belongs to the batcher until then; one that was refused (`overloaded`, `draining`, `too_large`) was not run.
   */
  submit(item: Item, options: SubmitOptions = NO_OPTIONS): Promise<Result> {
    const promise = new Promise<Result>(capture);
    const { reject } = captured;
    const resolve = captured.resolve as (result: Result) => void;
    this.#counters.submittedItems += 1;
    const { sizeOf, maxEnqueuedItems, maxEnqueuedSize } = this.#options;
    const queue = this.#queue;
    if (
      options === NO_OPTIONS &&
      sizeOf === undefined &&
      this.#state === "open" &&
      queue.items < maxEnqueuedItems &&
      queue.size < maxEnqueuedSize
    ) {
      // The most common call, without all that it cannot need.
      this.#enqueue(new Entry(1, 0, this.#tickNow(), resolve, reject, undefined), item);
    } else {
      this.#submit(item, options, resolve, reject);
    }
    return promise;
  }

  /**
   * Makes batches of what waits now, as soon as there is room in flight, without waiting for more; of the first
   * `maxItems` items at most. Their flush reason is `drain`.
   */
  flush(maxItems: number = this.#queue.items): void {
    this.#toFlush = Math.min(maxItems, this.#queue.items);
    this.#schedulePump();
  }

  /** Takes nothing new, runs what waits without delay, and resolves when the last result is out. */
  drain(): Promise<void> {
    if (this.#drained === undefined) {
      let resolve: () => void = () => {};
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      this.#drained = { promise, resolve };
      if (this.#state === "open") {
        this.#state = "draining";
      }
      this.#schedulePump();
      this.#settleDrain();
    }
    return this.#drained.promise;
  }

  /** Rejects everything that waits or runs with `closed`, aborts the running batches' signals, and takes nothing new. */
  close(): void {
    if (this.#state === "closed") {
      return;
    }
    this.#state = "closed";
    const error = new BatcherError("closed", "the batcher was closed");
    for (let entry = this.#queue.leastUrgent(); entry !== undefined; entry = this.#queue.leastUrgent()) {
      this.#counters.closedItems += 1;
      this.#drop(entry, error);
    }
    for (const batch of this.#running) {
      batch.over = true;
      this.#cancelRunTimer(batch);
      for (const entry of batch.entries) {
        if (entry.state !== "settled") {
          this.#counters.closedItems += 1;
          this.#drop(entry, error);
        }
      }
      batch.abort(error);
    }
    this.#running = [];
    this.#stopWaiting();
    if (this.#deadlineTimerAtMs < Infinity) {
      this.#clock.cancel(this.#deadlineTimer);
    }
    this.#settleDrain();
  }

  /** Counts so far and the present state, as a copy. */
  stats(): BatcherStats {
    const { batches, delayCounts, delaySumMs, ...counts } = this.#counters;
    const nowMs = this.#clock.now();
    return {
      ...counts,
      batches: { ...batches },
      queuedItems: this.#queue.items,
      queuedSize: this.#queue.size,
      oldestWaitMs: Math.max(0, nowMs - Math.min(nowMs, this.#queue.oldestArrivalMs())),
      inFlightBatches: this.#running.length,
      queueDelay: { counts: [...delayCounts], sumMs: delaySumMs },
      cost: this.#cost.known
        ? { fixedMicros: this.#cost.fixedMs * 1000, perSizeMicros: this.#cost.perSizeMs * 1000 }
        : undefined,
    };
  }

  #submit(
    item: Item,
    options: SubmitOptions,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ): void {
    let refused: BatcherError | undefined;
    try {
      refused = this.#tryEnqueue(item, options, resolve, reject);
    } catch (error) {
      reject(error);
      return;
    }
    if (refused !== undefined) {
      this.#counters.refusedItems += 1;
      reject(refused);
      this.#hook("onItemDropped", refused);
    }
  }

  #tryEnqueue(
    item: Item,
    { signal, deadlineMs = Infinity, priority = 0 }: SubmitOptions,
    resolve: (result: Result) => void,
    reject: (error: BatcherError) => void,
  ): BatcherError | undefined {
    if (this.#state !== "open") {
      return this.#state === "closed"
        ? new BatcherError("closed", "the batcher is closed")
        : new BatcherError("draining", "the batcher is draining and takes no new items");
    }
    const size = this.#sizeOf(item);
    if (typeof size !== "number") {
      return size;
    }
    if (!Number.isInteger(priority) || priority < 0 || priority > MAX_PRIORITY) {
      return invalid(`priority: expected a whole number from 0 to ${MAX_PRIORITY}, received ${String(priority)}`);
    }
    if (typeof deadlineMs !== "number" || Number.isNaN(deadlineMs)) {
      return invalid(`deadlineMs: expected milliseconds from now, received ${String(deadlineMs)}`);
    }
    if (signal?.aborted === true) {
      return cancelled(signal);
    }
    if (deadlineMs <= 0) {
      return new BatcherError("deadline_exceeded", `the deadline had passed ${-deadlineMs} ms before the item came`);
    }

    const arrival = deadlineMs < Infinity ? this.#arrivalAt(this.#clock.now()) : this.#tickNow();
    const deadlineAtMs = arrival.atMs + deadlineMs;
    if (size <= this.#options.maxBatchSize) {
      const refused = this.#makeRoom(1, size, priority);
      if (refused !== undefined) {
        return refused;
      }
      const extra =
        signal === undefined && deadlineAtMs === Infinity
          ? undefined
          : { deadlineAtMs, unlisten: undefined as (() => void) | undefined, batch: undefined };
      const entry = new Entry(size, priority, arrival, resolve, reject, extra);
      if (signal !== undefined && extra !== undefined) {
        const onAbort = (): void => this.#cancel(entry, signal);
        signal.addEventListener("abort", onAbort);
        extra.unlisten = () => signal.removeEventListener("abort", onAbort);
      }
      this.#enqueue(entry, item);
      return undefined;
    }

    const parts = this.#split(item, size);
    if (parts instanceof BatcherError) {
      return parts;
    }
    const partsSize = parts.reduce((sum, part) => sum + part.size, 0);
    const refused = this.#makeRoom(parts.length, partsSize, priority);
    if (refused !== undefined) {
      return refused;
    }
    const onAbort = (): void => entries.forEach((entry) => this.#cancel(entry, signal as AbortSignal));
    const whole = new SplitItem<Result>(
      parts.length,
      (results) => {
        signal?.removeEventListener("abort", onAbort);
        this.#join(results, item, resolve, reject);
      },
      (error) => {
        signal?.removeEventListener("abort", onAbort);
        reject(error);
        // The other parts are for nobody now.
        entries.forEach((entry) => this.#drop(entry, error));
      },
    );
    const entries = parts.map(
      ({ size: partSize }, i) =>
        new Entry<Result>(
          partSize,
          priority,
          arrival,
          (result) => whole.resolvePart(i, result),
          (error) => whole.rejectPart(error),
          { deadlineAtMs, unlisten: undefined, batch: undefined },
        ),
    );
    signal?.addEventListener("abort", onAbort);
    entries.forEach((entry, i) => this.#enqueue(entry, (parts[i] as { readonly part: Item }).part));
    return undefined;
  }

  #sizeOf(item: Item): number | BatcherError {
    const { sizeOf } = this.#options;
    if (sizeOf === undefined) {
      return 1;
    }
    try {
      const size = sizeOf(item);
      return Number.isSafeInteger(size) && size >= 1
        ? size
        : invalid(`sizeOf: expected a whole number from 1, received ${String(size)}`);
    } catch (cause) {
      return invalid("sizeOf threw", cause);
    }
  }

  #split(item: Item, size: number): { readonly part: Item; readonly size: number }[] | BatcherError {
    const { split, maxBatchSize, maxEnqueuedItems, maxEnqueuedSize } = this.#options;
    if (split === undefined) {
      return tooLarge("maxBatchSize", maxBatchSize, size);
    }
    let parts: readonly Item[];
    try {
      parts = split(item, maxBatchSize);
    } catch (cause) {
      return invalid("split threw", cause);
    }
    if (!Array.isArray(parts) || parts.length === 0) {
      return invalid(`split: expected a list of parts, received ${String(parts)}`);
    }
    const sized: { part: Item; size: number }[] = [];
    let partsSize = 0;
    for (const part of parts as readonly Item[]) {
      const partSize = this.#sizeOf(part);
      if (typeof partSize !== "number") {
        return partSize;
      }
      if (partSize > maxBatchSize) {
        return invalid(`split: expected parts of size ${maxBatchSize} or less, received one of ${partSize}`);
      }
      sized.push({ part, size: partSize });
      partsSize += partSize;
    }
    if (partsSize > maxEnqueuedSize) {
      return tooLarge("maxEnqueuedSize", maxEnqueuedSize, partsSize);
    }
    return sized.length > maxEnqueuedItems ? tooLarge("maxEnqueuedItems", maxEnqueuedItems, sized.length) : sized;
  }

  #join(
    results: readonly Result[],
    item: Item,
    resolve: (result: Result) => void,
    reject: (error: BatcherError) => void,
  ): void {
    try {
      resolve((this.#options.join as (results: readonly Result[], item: Item) => Result)(results, item));
    } catch (cause) {
      reject(new BatcherError("run_failed", "join threw", { cause }));
    }
  }

  /** Evicts items of lower priority if that makes the room that is needed; else says which limit is reached. */
  #makeRoom(items: number, size: number, priority: number): BatcherError | undefined {
    const { maxEnqueuedItems, maxEnqueuedSize } = this.#options;
    const queue = this.#queue;
    const tooMany = queue.items + items - maxEnqueuedItems;
    const tooMuch = queue.size + size - maxEnqueuedSize;
    if (tooMany <= 0 && tooMuch <= 0) {
      return undefined;
    }
    const lower = queue.below(priority);
    if (tooMany > lower.items || tooMuch > lower.size) {
      return tooMany > lower.items
        ? this.#overloaded("maxEnqueuedItems", maxEnqueuedItems, queue.items)
        : this.#overloaded("maxEnqueuedSize", maxEnqueuedSize, queue.size);
    }
    while (queue.items + items > maxEnqueuedItems || queue.size + size > maxEnqueuedSize) {
      const byItems = queue.items + items > maxEnqueuedItems;
      this.#counters.evictedItems += 1;
      this.#drop(
        queue.leastUrgent() as Entry<Result>,
        byItems
          ? this.#overloaded("maxEnqueuedItems", maxEnqueuedItems, queue.items)
          : this.#overloaded("maxEnqueuedSize", maxEnqueuedSize, queue.size),
      );
    }
    return undefined;
  }

  #overloaded(limitName: string, limit: number, current: number): BatcherError {
    // Room comes with the next batch that leaves the queue.
    const { maxBatchSize, maxInFlightBatches } = this.#options;
    const runMs = this.#cost.runMs(this.#sizes.atLeast(Math.min(this.#queue.size, maxBatchSize)));
    const retryAfterMs = Math.max(1, Math.ceil(runMs / Math.min(maxInFlightBatches, this.#running.length || 1)));
    return new BatcherError("overloaded", `the queue is full: ${limitName} is ${limit}, and it holds ${current}`, {
      limitName,
      limit,
      current,
      retryAfterMs,
    });
  }

  /** Now, read once for all items that are submitted in one go. */
  #tickNow(): Arrival {
    if (!this.#pumpScheduled) {
      this.#tick = this.#arrivalAt(this.#clock.now());
    }
    return this.#tick;
  }

  #arrivalAt(atMs: number): Arrival {
    return atMs === this.#arrival.atMs ? this.#arrival : { atMs, items: 0, size: 0 };
  }

  #enqueue(entry: Entry<Result>, item: Item): void {
    this.#queue.push(entry, item);
    const { arrival } = entry;
    if (arrival !== this.#arrival) {
      this.#tellArrivals();
      this.#arrival = arrival;
    }
    arrival.items += 1;
    arrival.size += entry.size;
    if (entry.extra !== undefined || !this.#pumpScheduled) {
      this.#enqueued(entry);
    }
  }

  /** Apart from `#enqueue`, so that the engine can inline that into `submit`: for most items it is not needed. */
  #enqueued(entry: Entry<Result>): void {
    const { deadlineAtMs } = entry;
    if (deadlineAtMs < Infinity) {
      this.#queuedDeadlines.push(entry);
      this.#armDeadline(deadlineAtMs, entry.arrivedAtMs);
    }
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      const { items, size } = this.#queue;
      const flushByMs = deadlineAtMs - waiting.runMs * DEADLINE_MARGIN;
      if (items < waiting.untilItems && size < waiting.untilSize && flushByMs >= this.#waitTimerAtMs) {
        return;
      }
    }
    if (this.#running.length < this.#options.maxInFlightBatches) {
      this.#schedulePump();
    }
  }

  /** Tells the policy what came at one time. */
  #tellArrivals(): void {
    const arrival = this.#arrival;
    const { atMs, items, size } = arrival;
    if (items > 0) {
      this.#policy.arrived(atMs, items, size);
      arrival.items = 0;
      arrival.size = 0;
    }
  }

  /** Makes batches after all that runs now has run, so that items submitted together go together. */
  #schedulePump(): void {
    if (!this.#pumpScheduled) {
      this.#pumpScheduled = true;
      queueMicrotask(() => {
        this.#pumpScheduled = false;
        this.#pump();
      });
    }
  }

  #pump(): void {
    // It holds a promise, and that its result.
    captured = makeCaptured();
    this.#stopWaiting();
    this.#tellArrivals();
    const queue = this.#queue;
    while (queue.items > 0 && this.#running.length < this.#options.maxInFlightBatches) {
      const nowMs = this.#clock.now();
      const toFlush = this.#state === "draining" ? Infinity : this.#toFlush;
      if (toFlush > 0) {
        const maxItems = this.#options.policy === "off" ? 1 : toFlush;
        this.#toFlush -= Math.min(this.#toFlush, this.#flush("drain", maxItems, this.#options.maxBatchSize, nowMs));
        continue;
      }
      const decision = this.#policy.decide({
        nowMs,
        items: queue.items,
        size: queue.size,
        oldestArrivalMs: queue.oldestArrivalMs(),
        roomSinceMs: this.#roomSinceMs,
      });
      if (decision.flush) {
        this.#flush(decision.reason, decision.maxItems, decision.maxSize, nowMs);
        continue;
      }
      const flushByMs = this.#queuedDeadlines.earliestMs() - decision.runMs * DEADLINE_MARGIN;
      if (flushByMs <= nowMs) {
        this.#flush("deadline", Infinity, this.#options.maxBatchSize, nowMs);
        continue;
      }
      this.#waiting = decision;
      this.#waitTimerAtMs = Math.min(decision.untilMs, flushByMs);
      if (this.#waitTimerAtMs < Infinity) {
        this.#waitTimer = this.#clock.schedule(this.#onWaited, this.#waitTimerAtMs - nowMs, true);
      }
      return;
    }
    this.#settleDrain();
  }

  readonly #onWaited = (): void => this.#pump();

  #stopWaiting(): void {
    if (this.#waiting !== undefined) {
      this.#waiting = undefined;
      if (this.#waitTimerAtMs < Infinity) {
        this.#clock.cancel(this.#waitTimer);
      }
      this.#waitTimerAtMs = Infinity;
    }
  }

  /** Runs one batch, within these bounds, if anything waits. Returns how many items it has. */
  #flush(reason: FlushReason, maxItems: number, maxSize: number, nowMs: number): number {
    const queue = this.#queue;
    const oldestArrivalMs = queue.oldestArrivalMs();
    const taken = queue.takePlain(Math.min(maxItems, maxSize)) ?? this.#takeOneByOne(maxItems, maxSize, nowMs);
    const { entries, size } = taken;
    if (entries.length === 0) {
      return 0;
    }
    this.#countDelays(taken, nowMs);
    const paddedSize = this.#sizes.atLeast(size);
    this.#batches += 1;
    const batch = new RunningBatch<Item, Result>(taken, {
      id: this.#batches,
      items: entries.length,
      size,
      paddedSize,
      flushReason: reason,
      startedAtMs: nowMs,
      oldestWaitMs: nowMs - oldestArrivalMs,
      expectedRunMs: this.#cost.known ? this.#cost.runMs(paddedSize) : undefined,
      inFlightBatches: this.#running.length + 1,
      queuedItems: queue.items,
    });
    batch.place = this.#running.length;
    if (!taken.plain) {
      for (const { extra } of entries) {
        if (extra !== undefined) {
          extra.batch = batch;
        }
      }
    }
    this.#running.push(batch);
    this.#counters.batches[reason] += 1;
    this.#counters.batchedSize += size;
    this.#counters.paddedSize += paddedSize;
    this.#hook("onBatchStart", batch.info);
    this.#run(batch);
    return entries.length;
  }

  #takeOneByOne(maxItems: number, maxSize: number, nowMs: number): Taken<Item, Result> {
    const queue = this.#queue;
    const entries: Entry<Result>[] = [];
    const items: Item[] = [];
    let size = 0;
    for (let entry = queue.peek(nowMs); entry !== undefined; entry = queue.peek(nowMs)) {
      if (entry.extra !== undefined && entry.extra.deadlineAtMs <= nowMs) {
        // Its timer is late; the last moment to notice is now.
        this.#expire(entry);
        continue;
      }
      if (entries.length >= maxItems || (entries.length > 0 && size + entry.size > maxSize)) {
        break;
      }
      items.push(queue.remove(entry));
      entry.state = "running";
      if (entry.extra !== undefined && entry.extra.deadlineAtMs < Infinity) {
        this.#queuedDeadlines.left();
        this.#runningDeadlines.push(entry);
      }
      size += entry.size;
      entries.push(entry);
    }
    return { entries, items, size, plain: false };
  }

  #countDelays({ entries, plain }: Taken<Item, Result>, nowMs: number): void {
    let { arrival } = entries[0] as Entry<Result>;
    if (plain && entries.at(-1)?.arrival === arrival) {
      this.#counters.delayed(nowMs - arrival.atMs, entries.length);
      return;
    }
    let together = 0;
    for (const entry of entries) {
      if (entry.arrival !== arrival) {
        this.#counters.delayed(nowMs - arrival.atMs, together);
        arrival = entry.arrival;
        together = 0;
      }
      together += 1;
    }
    this.#counters.delayed(nowMs - arrival.atMs, together);
  }

  #run(batch: RunningBatch<Item, Result>): void {
    const { runTimeoutMs, run } = this.#options;
    if (runTimeoutMs < Infinity) {
      batch.timer = this.#clock.schedule(() => this.#timedOut(batch), runTimeoutMs, false);
    }
    let outcome: PromiseLike<ArrayLike<Result | Error>> | ArrayLike<Result | Error>;
    try {
      outcome = run(new BatchView<Item>(batch as RunningBatch<Item, unknown>));
    } catch (cause) {
      this.#failed(batch, new BatcherError("run_failed", "the run of the batch threw", { cause }));
      return;
    }
    Promise.resolve(outcome).then(
      (results) => this.#returned(batch, results),
      (cause: unknown) =>
        this.#failed(batch, new BatcherError("run_failed", "the run of the batch was rejected", { cause })),
    );
  }

  #timedOut(batch: RunningBatch<Item, Result>): void {
    const { runTimeoutMs } = this.#options;
    const error = new BatcherError(
      "run_timeout",
      `the run of the batch took longer than runTimeoutMs, ${runTimeoutMs}`,
    );
    this.#failed(batch, error);
    batch.abort(error);
  }

  #returned(batch: RunningBatch<Item, Result>, results: ArrayLike<Result | Error>): void {
    const problem = findProblem(results, batch.entries.length);
    if (problem !== undefined) {
      this.#failed(batch, new BatcherError("run_failed", problem, { cause: new TypeError(problem) }));
      return;
    }
    if (!this.#end(batch, undefined)) {
      return;
    }
    const { entries, plain } = batch;
    let completed = 0;
    for (let i = 0; i < entries.length; i += 1) {
      const entry = entries[i] as Entry<Result>;
      if (!plain) {
        if (entry.state === "settled") {
          continue;
        }
        this.#leave(entry);
      }
      const result = results[i] as Result | Error;
      if (result instanceof Error) {
        this.#counters.failedItems += 1;
        entry.reject(new BatcherError("run_failed", "the run gave an error for this item", { cause: result }));
      } else {
        completed += 1;
        entry.resolve(result);
      }
    }
    this.#counters.completedItems += completed;
    this.#schedulePump();
  }

  #failed(batch: RunningBatch<Item, Result>, error: BatcherError): void {
    if (!this.#end(batch, error)) {
      return;
    }
    this.#counters.failedBatches += 1;
    for (const entry of batch.entries) {
      if (entry.state !== "settled") {
        this.#counters.failedItems += 1;
        this.#leave(entry);
        entry.reject(error);
      }
    }
    this.#schedulePump();
  }

  /** Takes a batch out of flight; false if it had left before. */
  #end(batch: RunningBatch<Item, Result>, error: BatcherError | undefined): boolean {
    if (batch.over) {
      return false;
    }
    batch.over = true;
    const nowMs = this.#clock.now();
    const { info } = batch;
    const runMs = nowMs - info.startedAtMs;
    this.#cancelRunTimer(batch);
    if (this.#running.length >= this.#options.maxInFlightBatches) {
      this.#roomSinceMs = nowMs;
    }
    const last = this.#running.pop() as RunningBatch<Item, Result>;
    if (last !== batch) {
      this.#running[batch.place] = last;
      last.place = batch.place;
    }
    if (error === undefined) {
      this.#cost.observe(info.paddedSize, runMs);
    }
    this.#tellArrivals();
    this.#policy.answered(nowMs, info.items);
    this.#hook("onBatchEnd", info, runMs, error);
    return true;
  }

  #cancelRunTimer({ timer }: RunningBatch<Item, Result>): void {
    if (timer !== undefined) {
      this.#clock.cancel(timer);
    }
  }

  #cancel(entry: Entry<Result>, signal: AbortSignal): void {
    if (entry.state !== "settled") {
      this.#counters[entry.state === "queued" ? "cancelledBeforeRunItems" : "cancelledInRunItems"] += 1;
      this.#drop(entry, cancelled(signal));
    }
  }

  #expire(entry: Entry<Result>): void {
    this.#counters[entry.state === "queued" ? "expiredBeforeRunItems" : "expiredInRunItems"] += 1;
    const afterMs = entry.deadlineAtMs - entry.arrivedAtMs;
    const where = entry.state === "queued" ? "waiting" : "running";
    this.#drop(entry, new BatcherError("deadline_exceeded", `the deadline of ${afterMs} ms passed while ${where}`));
  }

  /** Rejects an entry that waits or runs. */
  #drop(entry: Entry<Result>, error: BatcherError): void {
    if (entry.state === "settled") {
      return;
    }
    const batch = entry.extra?.batch;
    this.#leave(entry);
    batch?.entryLeft();
    entry.reject(error);
    this.#hook("onItemDropped", error);
    if (this.#queue.items === 0) {
      this.#stopWaiting();
    }
    this.#settleDrain();
  }

  /** Takes an entry out of everything that holds it, in O(1). */
  #leave(entry: Entry<Result>): void {
    const wasQueued = entry.state === "queued" && this.#queue.holds(entry);
    if (wasQueued) {
      this.#queue.remove(entry);
    }
    entry.state = "settled";
    const { extra } = entry;
    if (extra !== undefined) {
      extra.batch = undefined;
      extra.unlisten?.();
      if (extra.deadlineAtMs < Infinity) {
        (wasQueued ? this.#queuedDeadlines : this.#runningDeadlines).left();
      }
    }
  }

  #armDeadline(atMs: number, nowMs: number): void {
    if (atMs < this.#deadlineTimerAtMs) {
      if (this.#deadlineTimerAtMs < Infinity) {
        this.#clock.cancel(this.#deadlineTimer);
      }
      this.#deadlineTimerAtMs = atMs;
      this.#deadlineTimer = this.#clock.schedule(this.#onDeadline, atMs - nowMs, false);
    }
  }

  readonly #onDeadline = (): void => {
    this.#deadlineTimerAtMs = Infinity;
    const nowMs = this.#clock.now();
    for (const deadlines of [this.#queuedDeadlines, this.#runningDeadlines]) {
      for (let entry = deadlines.peek(); entry !== undefined && entry.deadlineAtMs <= nowMs; entry = deadlines.peek()) {
        this.#expire(entry);
      }
    }
    const nextMs = Math.min(this.#queuedDeadlines.earliestMs(), this.#runningDeadlines.earliestMs());
    if (nextMs < Infinity) {
      this.#armDeadline(nextMs, nowMs);
    }
  };

  #settleDrain(): void {
    if (this.#drained !== undefined && this.#queue.items === 0 && this.#running.length === 0) {
      this.#drained.resolve();
    }
  }

  #hook<Name extends keyof BatcherHooks>(name: Name, ...args: Parameters<NonNullable<BatcherHooks[Name]>>): void {
    const { hooks } = this.#options;
    if (hooks[name] !== undefined) {
      try {
        (hooks[name] as (...args: unknown[]) => void)(...args);
      } catch {
        this.#counters.hookErrors += 1;
      }
    }
  }
}

function makePolicy<Item, Result>(
  options: ResolvedOptions<Item, Result>,
  cost: CostModel,
  sizes: BatchSizes,
): FlushPolicy {
  const { policy, maxBatchSize, paddingPolicy, batchTimeoutMicros, latencyBudgetMs } = options;
  switch (policy) {
    case "off":
      return new OffPolicy();
    case "window":
      return new WindowPolicy(cost, maxBatchSize, sizes, paddingPolicy, batchTimeoutMicros / 1000);
    case "adaptive":
      return new AdaptivePolicy(cost, maxBatchSize, sizes, paddingPolicy, latencyBudgetMs);
    default:
      return policy;
  }
}

/** What is wrong with the outcome of a run, if anything. */
function findProblem(results: unknown, items: number): string | undefined {
  if (typeof results !== "object" || results === null || typeof (results as { length?: unknown }).length !== "number") {
    const received = results === null ? "null" : typeof results;
    return `the run of the batch must give a list of ${items} results, one an item, but gave ${received}`;
  }
  const { length } = results as ArrayLike<unknown>;
  return length === items
    ? undefined
    : `the run of the batch must give ${items} results, one an item, but gave ${length}`;
}

function invalid(message: string, cause?: unknown): BatcherError {
  return new BatcherError("invalid_argument", message, cause === undefined ? {} : { cause });
}

function cancelled(signal: AbortSignal): BatcherError {
  return new BatcherError("cancelled", "the item was cancelled", { cause: signal.reason });
}

function tooLarge(limitName: string, limit: number, size: number): BatcherError {
  return new BatcherError("too_large", `the item is too large: its size is ${size}, and ${limitName} is ${limit}`, {
    limitName,
    limit,
    current: size,
  });
}
