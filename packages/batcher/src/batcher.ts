import { BatchSizes } from "./batch-sizes.ts";
import type { Arrival } from "./arrival.ts";
import { BatcherError } from "./batcher-error.ts";
import { policyFault } from "./checked-policy.ts";
import type { BatcherStats } from "./batcher-stats.ts";
import { Counters } from "./batcher-stats.ts";
import type { Clock } from "./clock.ts";
import { CostModel } from "./cost-model.ts";
import { DeadlineTimer } from "./deadline-timer.ts";
import type { EntryState, ItemOwner, OnSettled, Resolve, Waiting } from "./entry.ts";
import { Entry, failLater, failWith, NO_PART } from "./entry.ts";
import { EntryQueue } from "./entry-queue.ts";
import type { FlushDecision, FlushPolicy, FlushReason } from "./flush-policy.ts";
import { DEADLINE_MARGIN } from "./flush-policy.ts";
import { FlushWait } from "./flush-wait.ts";
import { HookCalls } from "./hook-calls.ts";
import { cancelled, findRefusal, sizeOfItem, splitParts } from "./item-checks.ts";
import { makePolicy } from "./make-policy.ts";
import type { BatcherOptions, ResolvedOptions } from "./options.ts";
import { resolveOptions } from "./options.ts";
import { QueueRoom } from "./queue-room.ts";
import { RunningBatch } from "./running-batch.ts";
import type { Join } from "./split-item.ts";
import { SplitItem, tellJoined } from "./split-item.ts";
import { startRun } from "./start-run.ts";
import type { CancelSignal, SubmitOptions } from "./submit-options.ts";
import { countDelays, takeOneByOne } from "./take-batch.ts";

/** An item that `enqueue` took. */
export interface Enqueued {
  /** `settled` from when its outcome is known; `onSettled` hears of an error a moment later. */
  readonly state: EntryState;
}

/** What `enqueue` gives for an item that it refused. */
const REFUSED: Enqueued = { state: "settled" };
const NO_OPTIONS: SubmitOptions = {};
const RESOLVED = Promise.resolve();

/**
 * Collects single items into batches and gives each caller its own result.
 *
 * Invariants:
 * - An entry is in the queue iff its state is `queued`, and in exactly one running batch iff it is `running`.
 * - Each submitted item's promise settles exactly once, whatever callbacks do.
 * - `run` is called only from `#pump`, so never from inside `submit`, and never with more than
 *   `maxInFlightBatches` outcomes missing.
 * - There is a wait for more items only while there is room in flight.
 */
export class Batcher<Item, Result> {
  readonly #options: ResolvedOptions<Item, Result>;
  readonly #clock: Clock;
  readonly #sizes: BatchSizes;
  readonly #cost = new CostModel();
  readonly #policy: FlushPolicy;
  readonly #queue: EntryQueue<Item, Result>;
  readonly #deadlines: DeadlineTimer<Result>;
  #running: RunningBatch<Item, Result>[] = [];
  readonly #counters = new Counters();
  readonly #hooks: HookCalls;
  readonly #room: QueueRoom<Item, Result>;

  #state: "open" | "draining" | "closed" = "open";
  #batches = 0;
  /** Items to send without asking the policy. */
  #toFlush = 0;
  #roomSinceMs: number;
  /** Whether a pump is to run at the end of this tick: of what runs now, up to an empty microtask queue. */
  #pumpWanted = false;
  #tickOpen = false;
  /** The last time at which items came. */
  #arrival: Arrival = { atMs: -Infinity, items: 0, size: 0 };
  /** When the items of this tick came; valid iff it has any. */
  #tick: Arrival | undefined;
  /** Plain items of this tick, `room` of them at most. In the queue all at once, they cost half as much. */
  readonly #plain: { waiting: Resolve<Result>[]; items: Item[]; room: number } = { waiting: [], items: [], room: 0 };
  /** Only while there is room in flight. */
  readonly #wait: FlushWait;
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  /** Throws a `BatcherError` with code `invalid_options` that names every problem. */
  constructor(options: BatcherOptions<Item, Result>) {
    const resolved = resolveOptions(options);
    this.#options = resolved;
    this.#clock = resolved.clock;
    this.#sizes = new BatchSizes(resolved.allowedBatchSizes);
    this.#queue = new EntryQueue(resolved.agingMs);
    this.#policy = makePolicy(resolved, this.#cost, this.#sizes);
    this.#deadlines = new DeadlineTimer(this.#clock, (entry) => this.#expire(entry));
    this.#hooks = new HookCalls(resolved.hooks, this.#counters);
    this.#room = new QueueRoom(resolved, this.#queue, () => this.#retryAfterMs());
    this.#wait = new FlushWait(this.#clock, () => this.#pump());
    this.#roomSinceMs = this.#clock.now();
  }

  /**
   * Takes an item; the promise settles with its own result, or rejects with a `BatcherError` (see `code`). Never throws.
   * The item belongs to the batcher until then; one that was refused (`overloaded`, `draining`, `too_large`) was not run.
   */
  submit(item: Item, options: SubmitOptions = NO_OPTIONS): Promise<Result> {
    const plain = this.#plain;
    if (options === NO_OPTIONS && (plain.items.length < plain.room || this.#openPlain())) {
      // The most common call, without all that it cannot need, not even a way to reject: see `failWith`.
      const { waiting, items } = plain;
      // Not `push`: whether the engine inlines that here is a matter of luck.
      items[items.length] = item;
      return new Promise((resolve) => {
        waiting[waiting.length] = resolve;
      });
    }
    return this.#submit(item, options);
  }

  /**
   * As `submit`, without a promise: `onSettled` is called once, never from inside `enqueue`, with an error or a result.
   * What it throws is thrown again in a microtask. Gives what `cancel` takes.
   */
  enqueue(item: Item, onSettled: OnSettled<Result> | ItemOwner<Result>, options: SubmitOptions = NO_OPTIONS): Enqueued {
    this.#absorbPlain();
    this.#counters.submittedItems += 1;
    let taken: Enqueued | BatcherError;
    try {
      taken = this.#tryEnqueue(item, options, onSettled);
    } catch (thrown) {
      taken = new BatcherError("invalid_argument", "the options of the item cannot be read", { cause: thrown });
    }
    if (!(taken instanceof BatcherError)) {
      return taken;
    }
    const { refusedByCode } = this.#counters;
    this.#counters.refusedItems += 1;
    refusedByCode[taken.code] = (refusedByCode[taken.code] ?? 0) + 1;
    failLater(onSettled, taken);
    this.#hooks.itemDropped(taken);
    return REFUSED;
  }

  /** As an aborted signal, for what `enqueue` gave; false if it was settled before. */
  cancel(enqueued: Enqueued, reason?: unknown): boolean {
    if (enqueued.state === "settled") {
      return false;
    }
    const error = cancelled(reason);
    if (enqueued instanceof Entry) {
      this.#cancel(enqueued, error);
    } else {
      (enqueued as SplitItem<Result>).entries.forEach((entry) => this.#cancel(entry, error));
    }
    return true;
  }

  /** Whether an item of this size would not be refused for want of room, were its priority the lowest. */
  hasRoom(size: number = 1): boolean {
    this.#absorbPlain();
    return this.#state === "open" && this.#room.has(size);
  }

  /**
   * Makes batches of what waits now, as soon as there is room in flight, without waiting for more; of the first
   * `maxItems` items at most. Their flush reason is `drain`.
   */
  flush(maxItems: number = Infinity): void {
    this.#absorbPlain();
    this.#toFlush = Math.min(maxItems, this.#queue.items);
    this.#schedulePump();
  }

  /** Takes nothing new, runs what waits without delay, and resolves when the last result is out. */
  drain(): Promise<void> {
    this.#absorbPlain();
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
    this.#absorbPlain();
    this.#state = "closed";
    const error = new BatcherError("closed", "the batcher was closed");
    const fail = failWith<Result>(error);
    for (let waiting = this.#queue.leastUrgent(); waiting !== undefined; waiting = this.#queue.leastUrgent()) {
      this.#counters.closedItems += 1;
      this.#drop(waiting, error, fail);
    }
    for (const batch of this.#running) {
      batch.over = true;
      this.#cancelRunTimer(batch);
      for (const waiting of batch.waiting) {
        if (typeof waiting === "function" || waiting.state !== "settled") {
          this.#counters.closedItems += 1;
          this.#drop(waiting, error, fail);
        }
      }
      batch.abort(error);
    }
    this.#running = [];
    this.#wait.stop();
    this.#deadlines.stop();
    this.#settleDrain();
  }

  /** Counts so far and the present state, as a copy. */
  stats(): BatcherStats {
    this.#absorbPlain();
    const { batches, refusedByCode, delayCounts, delaySumMs, ...counts } = this.#counters;
    const nowMs = this.#clock.now();
    return {
      ...counts,
      refusedByCode: { ...refusedByCode },
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

  #submit(item: Item, options: SubmitOptions): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.enqueue(
        item,
        (error, result) => {
          if (error === undefined) {
            resolve(result as Result);
          } else {
            reject(error);
          }
        },
        options,
      );
    });
  }

  /** Opens the list of plain items for one that has come; false if such an item is not taken as it is. */
  #openPlain(): boolean {
    this.#absorbPlain();
    if (this.#state !== "open" || this.#options.sizeOf !== undefined) {
      return false;
    }
    this.#plain.room = this.#room.plain;
    if (this.#plain.room < 1) {
      return false;
    }
    this.#tick ??= this.#tickArrival();
    if (!this.#pumpWanted) {
      this.#considerPump(1, Infinity);
    }
    return true;
  }

  /** Puts the plain items that have come into the queue: before anything that must know of them. */
  #absorbPlain(): void {
    const plain = this.#plain;
    plain.room = 0;
    const { waiting, items } = plain;
    if (items.length > 0) {
      plain.waiting = [];
      plain.items = [];
      const arrival = this.#tick as Arrival;
      this.#counters.submittedItems += items.length;
      this.#queue.pushPlain(waiting, items, arrival);
      this.#count(arrival, items.length, items.length);
    }
  }

  #tryEnqueue(
    item: Item,
    options: SubmitOptions,
    onSettled: OnSettled<Result> | ItemOwner<Result>,
  ): Enqueued | BatcherError {
    if (this.#state !== "open") {
      return this.#state === "closed"
        ? new BatcherError("closed", "the batcher is closed")
        : new BatcherError("draining", "the batcher is draining and takes no new items");
    }
    const size = sizeOfItem(this.#options, item);
    if (typeof size !== "number") {
      return size;
    }
    const refusal = findRefusal(options);
    if (refusal !== undefined) {
      return refusal;
    }
    const { signal, deadlineMs = Infinity, priority = 0 } = options;
    // A deadline counts from this very moment, not from that of the first item of this tick.
    const arrival = deadlineMs < Infinity ? this.#arrivalAt(this.#clock.now()) : (this.#tick ?? this.#tickArrival());
    if (size > this.#options.maxBatchSize) {
      return this.#tryEnqueueParts(item, size, options, arrival, onSettled);
    }
    const refused = this.#room.make(1, size, priority, this.#evict);
    if (refused !== undefined) {
      return refused;
    }
    const entry = new Entry(size, priority, arrival, arrival.atMs + deadlineMs, onSettled, NO_PART);
    if (signal !== undefined) {
      this.#listen(entry, signal);
    }
    this.#enqueue(entry, item);
    return entry;
  }

  // Apart, as are the parts of an item: a function with a function in it makes a context for that, whether it is needed or not.
  #listen(entry: Entry<Result>, signal: CancelSignal): void {
    const onAbort = (): void => this.#cancel(entry, cancelled(signal.reason));
    signal.addEventListener("abort", onAbort);
    entry.unlisten = () => signal.removeEventListener("abort", onAbort);
  }

  #tryEnqueueParts(
    item: Item,
    size: number,
    { signal, deadlineMs = Infinity, priority = 0 }: SubmitOptions,
    arrival: Arrival,
    onSettled: OnSettled<Result> | ItemOwner<Result>,
  ): Enqueued | BatcherError {
    const deadlineAtMs = arrival.atMs + deadlineMs;
    const parts = splitParts(this.#options, item, size);
    if (parts instanceof BatcherError) {
      return parts;
    }
    const partsSize = parts.reduce((sum, part) => sum + part.size, 0);
    const refused = this.#room.make(parts.length, partsSize, priority, this.#evict);
    if (refused !== undefined) {
      return refused;
    }
    const onAbort = (): void => {
      const error = cancelled(signal?.reason);
      whole.entries.forEach((entry) => this.#cancel(entry, error));
    };
    const whole = new SplitItem<Result>(
      parts.length,
      (results) => {
        signal?.removeEventListener("abort", onAbort);
        tellJoined(this.#options.join as Join<Item, Result>, results, item, onSettled);
      },
      (error) => {
        signal?.removeEventListener("abort", onAbort);
        failLater(onSettled, error);
        // The other parts are for nobody now.
        whole.entries.forEach((entry) => this.#drop(entry, error));
      },
    );
    whole.entries = parts.map((part, i) => new Entry(part.size, priority, arrival, deadlineAtMs, whole, i));
    signal?.addEventListener("abort", onAbort);
    whole.entries.forEach((entry, i) => this.#enqueue(entry, (parts[i] as { readonly item: Item }).item));
    return whole;
  }

  readonly #evict = (waiting: Waiting<Result>, error: BatcherError): void => {
    this.#counters.evictedItems += 1;
    this.#drop(waiting, error);
  };

  /** Until the next batch leaves the queue, about. */
  #retryAfterMs(): number {
    const { maxBatchSize, maxInFlightBatches } = this.#options;
    const runMs = this.#cost.runMs(this.#sizes.atLeast(Math.min(this.#queue.size, maxBatchSize)));
    return Math.max(1, Math.ceil(runMs / Math.min(maxInFlightBatches, this.#running.length || 1)));
  }

  /** Now, read once for all items that are submitted in one go. */
  #tickArrival(): Arrival {
    this.#tick = this.#arrivalAt(this.#clock.now());
    this.#openTick();
    return this.#tick;
  }

  #arrivalAt(atMs: number): Arrival {
    return atMs === this.#arrival.atMs ? this.#arrival : { atMs, items: 0, size: 0 };
  }

  #openTick(): void {
    if (!this.#tickOpen) {
      this.#tickOpen = true;
      // Not `queueMicrotask`, which in Node makes a resource of each call.
      void RESOLVED.then(this.#endTick);
    }
  }

  readonly #endTick = (): void => {
    this.#tickOpen = false;
    this.#absorbPlain();
    this.#tick = undefined;
    if (!this.#pumpWanted && this.#queue.items > 0) {
      this.#considerPump(0, Infinity);
    } else if (this.#pumpWanted) {
      this.#pumpWanted = false;
      this.#pump();
    }
  };

  #enqueue(entry: Entry<Result>, item: Item): void {
    this.#queue.push(entry, item);
    this.#count(entry.arrival, 1, entry.size);
    const { deadlineAtMs } = entry;
    if (deadlineAtMs < Infinity) {
      this.#deadlines.queued(entry);
    }
    this.#considerPump(0, deadlineAtMs);
  }

  #count(arrival: Arrival, items: number, size: number): void {
    if (arrival !== this.#arrival) {
      this.#tellArrivals();
      this.#arrival = arrival;
    }
    arrival.items += items;
    arrival.size += size;
  }

  /** After an item with this deadline has come; `more` items of size 1 have, that are not in the queue yet. */
  #considerPump(more: number, deadlineAtMs: number): void {
    if (this.#wait.goesOn(this.#queue.items + more, this.#queue.size + more, deadlineAtMs)) {
      return;
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
    this.#pumpWanted = true;
    this.#openTick();
  }

  #pump(): void {
    this.#absorbPlain();
    this.#wait.stop();
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
      const decision = this.#decide(nowMs);
      if (decision instanceof BatcherError) {
        this.#flush("idle", Infinity, this.#options.maxBatchSize, nowMs, decision);
        continue;
      }
      if (decision.flush) {
        this.#flush(decision.reason, decision.maxItems, decision.maxSize, nowMs);
        continue;
      }
      const flushByMs = this.#deadlines.earliestQueuedMs() - decision.runMs * DEADLINE_MARGIN;
      if (flushByMs <= nowMs) {
        this.#flush("deadline", Infinity, this.#options.maxBatchSize, nowMs);
        continue;
      }
      this.#wait.begin(decision, Math.min(decision.untilMs, flushByMs), nowMs);
      return;
    }
    this.#settleDrain();
  }

  /** What the policy says; an error if it is a caller's and cannot say. */
  #decide(nowMs: number): FlushDecision | BatcherError {
    const queue = this.#queue;
    try {
      return this.#policy.decide({
        nowMs,
        items: queue.items,
        size: queue.size,
        oldestArrivalMs: queue.oldestArrivalMs(),
        roomSinceMs: this.#roomSinceMs,
      });
    } catch (fault) {
      return policyFault(fault);
    }
  }

  /** Runs one batch, within these bounds, if anything waits; or fails it with `fault`. Returns how many items it has. */
  #flush(reason: FlushReason, maxItems: number, maxSize: number, nowMs: number, fault?: BatcherError): number {
    const queue = this.#queue;
    const oldestArrivalMs = queue.oldestArrivalMs();
    const taken =
      queue.takePlain(Math.min(maxItems, maxSize)) ?? takeOneByOne(queue, maxItems, maxSize, nowMs, this.#taking);
    const { waiting, size } = taken;
    if (waiting.length === 0) {
      return 0;
    }
    countDelays(taken, nowMs, this.#counters);
    const paddedSize = this.#sizes.atLeast(size);
    this.#batches += 1;
    const batch = new RunningBatch<Item, Result>(taken, {
      id: this.#batches,
      items: waiting.length,
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
    for (const one of waiting) {
      if (typeof one === "object") {
        one.batch = batch;
      }
    }
    this.#running.push(batch);
    this.#counters.batches[reason] += 1;
    this.#counters.batchedSize += size;
    this.#counters.paddedSize += paddedSize;
    this.#hooks.batchStarts(batch.info);
    if (fault === undefined) {
      startRun(batch, this.#options, this.#clock, this.#runs);
    } else {
      this.#failed(batch, fault);
    }
    return waiting.length;
  }

  readonly #taking = {
    expired: (entry: Entry<Result>): void => this.#expire(entry),
    runs: (entry: Entry<Result>): void => this.#deadlines.runs(entry),
  };

  readonly #runs = {
    returned: (batch: RunningBatch<Item, Result>, results: ArrayLike<Result | Error>): void =>
      this.#returned(batch, results),
    failed: (batch: RunningBatch<Item, Result>, error: BatcherError): void => this.#failed(batch, error),
  };

  #returned(batch: RunningBatch<Item, Result>, results: ArrayLike<Result | Error>): void {
    if (!this.#end(batch, undefined)) {
      return;
    }
    const { waiting } = batch;
    let completed = 0;
    for (let i = 0; i < waiting.length; i += 1) {
      const one = waiting[i] as Waiting<Result>;
      const result = results[i] as Result | Error;
      if (typeof one === "function") {
        if (result instanceof Error) {
          this.#failItem(one, result);
        } else {
          completed += 1;
          one(result);
        }
      } else if (one.state !== "settled") {
        this.#leave(one);
        if (result instanceof Error) {
          this.#failItem(one, result);
        } else {
          completed += 1;
          one.resolve(result);
        }
      }
    }
    this.#counters.completedItems += completed;
    this.#schedulePump();
  }

  #failItem(waiting: Waiting<Result>, cause: Error): void {
    this.#counters.failedItems += 1;
    failWith<Result>(new BatcherError("run_failed", "the run gave an error for this item", { cause }))(waiting);
  }

  #failed(batch: RunningBatch<Item, Result>, error: BatcherError): void {
    if (!this.#end(batch, error)) {
      return;
    }
    this.#counters.failedBatches += 1;
    const fail = failWith<Result>(error);
    for (const one of batch.waiting) {
      if (typeof one === "object") {
        if (one.state === "settled") {
          continue;
        }
        this.#leave(one);
      }
      this.#counters.failedItems += 1;
      fail(one);
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
    this.#hooks.batchEnds(info, runMs, error);
    return true;
  }

  #cancelRunTimer({ timer }: RunningBatch<Item, Result>): void {
    if (timer !== undefined) {
      this.#clock.cancel(timer);
    }
  }

  #cancel(entry: Entry<Result>, error: BatcherError): void {
    if (entry.state !== "settled") {
      this.#counters[entry.state === "queued" ? "cancelledBeforeRunItems" : "cancelledInRunItems"] += 1;
      this.#drop(entry, error);
    }
  }

  #expire(entry: Entry<Result>): void {
    this.#counters[entry.state === "queued" ? "expiredBeforeRunItems" : "expiredInRunItems"] += 1;
    const afterMs = entry.deadlineAtMs - entry.arrival.atMs;
    const where = entry.state === "queued" ? "waiting" : "running";
    this.#drop(entry, new BatcherError("deadline_exceeded", `the deadline of ${afterMs} ms passed while ${where}`));
  }

  /** Rejects what waits or runs; of plain items that wait only the least urgent. */
  #drop(waiting: Waiting<Result>, error: BatcherError, fail = failWith<Result>(error)): void {
    if (typeof waiting === "function") {
      if (this.#queue.leastUrgent() === waiting) {
        this.#queue.popPlain();
      }
    } else {
      if (waiting.state === "settled") {
        return;
      }
      const { batch } = waiting;
      this.#leave(waiting);
      batch?.entryLeft();
    }
    fail(waiting);
    this.#hooks.itemDropped(error);
    if (this.#queue.items === 0) {
      this.#wait.stop();
    }
    this.#settleDrain();
  }

  /** Takes an entry out of everything that holds it, in O(1). */
  #leave(entry: Entry<Result>): void {
    const { state, unlisten } = entry;
    if (state === "queued") {
      this.#queue.remove(entry);
    }
    entry.state = "settled";
    entry.batch = undefined;
    unlisten?.();
    this.#deadlines.settled(entry, state as "queued" | "running");
  }

  #settleDrain(): void {
    if (this.#drained !== undefined && this.#queue.items === 0 && this.#running.length === 0) {
      this.#drained.resolve();
    }
  }
}
