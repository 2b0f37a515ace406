import type { Enqueued } from "./admission.ts";
import { Admission } from "./admission.ts";
import { Arrivals } from "./arrivals.ts";
import { BatchMaker } from "./batch-maker.ts";
import { BatchSizes } from "./batch-sizes.ts";
import { BatcherError } from "./batcher-error.ts";
import type { BatcherStats } from "./batcher-stats.ts";
import { Counters } from "./batcher-stats.ts";
import { CostModel } from "./cost-model.ts";
import { Departures } from "./departures.ts";
import type { ItemOwner, OnSettled } from "./entry.ts";
import { Entry, failLater } from "./entry.ts";
import { EntryQueue } from "./entry-queue.ts";
import { FlushWait } from "./flush-wait.ts";
import { HookCalls } from "./hook-calls.ts";
import { InFlight } from "./in-flight.ts";
import { cancelled } from "./item-checks.ts";
import { Lifecycle } from "./lifecycle.ts";
import { makePolicy } from "./make-policy.ts";
import type { BatcherOptions, ResolvedOptions } from "./options.ts";
import { resolveOptions } from "./options.ts";
import { Outcomes } from "./outcomes.ts";
import { PlainItems } from "./plain-items.ts";
import { Pump } from "./pump.ts";
import { QueueRoom } from "./queue-room.ts";
import type { SplitItem } from "./split-item.ts";
import { statsOf } from "./stats-of.ts";
import type { SubmitOptions } from "./submit-options.ts";

export type { Enqueued } from "./admission.ts";

/** What `enqueue` gives for an item that it refused. */
const REFUSED: Enqueued = { state: "settled" };
const NO_OPTIONS: SubmitOptions = {};

/**
 * Collects single items into batches and gives each caller its own result.
 *
 * Invariants:
 * - An entry is in the queue iff its state is `queued`, and in exactly one running batch iff it is `running`.
 * - Each submitted item's promise settles exactly once, whatever callbacks do.
 * - `run` is called only from the pump, so never from inside `submit`, and never with more than
 *   `maxInFlightBatches` outcomes missing.
 * - There is a wait for more items only while there is room in flight.
 */
export class Batcher<Item, Result> {
  readonly #options: ResolvedOptions<Item, Result>;
  readonly #cost = new CostModel();
  readonly #counters = new Counters();
  readonly #queue: EntryQueue<Item, Result>;
  readonly #arrivals: Arrivals;
  readonly #plain: PlainItems<Item, Result>;
  readonly #inFlight: InFlight<Item, Result>;
  readonly #lifecycle: Lifecycle;
  readonly #departures: Departures<Item, Result>;
  readonly #pump: Pump<Item, Result>;
  readonly #room: QueueRoom<Item, Result>;
  readonly #admission: Admission<Item, Result>;
  readonly #hooks: HookCalls;

  /** Throws a `BatcherError` with code `invalid_options` that names every problem. */
  constructor(batcherOptions: BatcherOptions<Item, Result>) {
    const options = resolveOptions(batcherOptions);
    const { clock } = options;
    const cost = this.#cost;
    const counters = this.#counters;
    const sizes = new BatchSizes(options.allowedBatchSizes);
    const queue = new EntryQueue<Item, Result>(options.agingMs);
    const policy = makePolicy(options, cost, sizes);
    const hooks = new HookCalls(options.hooks, counters);
    const arrivals = new Arrivals(clock, policy, () => this.#pump.openTick());
    const plain = new PlainItems<Item, Result>(queue, arrivals, counters);
    const inFlight = new InFlight<Item, Result>({ options, sizes, cost, policy, arrivals, hooks });
    const lifecycle = new Lifecycle(queue, inFlight);
    const wait = new FlushWait(clock, () => this.#pump.run());
    const onDropped = (): void => this.#pump.dropped();
    const departures = new Departures<Item, Result>({ clock, queue, counters, hooks, wait, lifecycle, onDropped });
    const { deadlines } = departures;
    const outcomes = new Outcomes<Item, Result>(inFlight, departures, counters, () => this.#pump.schedule());
    const maker = new BatchMaker<Item, Result>({ queue, departures, inFlight, sizes, cost, counters, hooks });
    const pump = new Pump<Item, Result>({
      options,
      policy,
      queue,
      plain,
      arrivals,
      deadlines,
      inFlight,
      lifecycle,
      wait,
      maker,
      outcomes,
    });
    const room = new QueueRoom<Item, Result>(options, queue, () => inFlight.retryAfterMs(queue.size));
    this.#options = options;
    this.#queue = queue;
    this.#arrivals = arrivals;
    this.#plain = plain;
    this.#inFlight = inFlight;
    this.#lifecycle = lifecycle;
    this.#departures = departures;
    this.#pump = pump;
    this.#room = room;
    this.#admission = new Admission({ options, lifecycle, arrivals, room, queue, departures, pump });
    this.#hooks = hooks;
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
    this.#plain.absorb();
    this.#counters.submittedItems += 1;
    let taken: Enqueued | BatcherError;
    try {
      taken = this.#admission.take(item, options, onSettled);
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
      this.#departures.cancel(enqueued, error);
    } else {
      (enqueued as SplitItem<Result>).entries.forEach((entry) => this.#departures.cancel(entry, error));
    }
    return true;
  }

  /** Whether an item of this size would not be refused for want of room, were its priority the lowest. */
  hasRoom(size: number = 1): boolean {
    this.#plain.absorb();
    return this.#lifecycle.state === "open" && this.#room.has(size);
  }

  /**
   * Makes batches of what waits now, as soon as there is room in flight, without waiting for more; of the first
   * `maxItems` items at most. Their flush reason is `drain`.
   */
  flush(maxItems: number = Infinity): void {
    this.#plain.absorb();
    this.#pump.flush(maxItems);
  }

  /** Takes nothing new, runs what waits without delay, and resolves when the last result is out. */
  drain(): Promise<void> {
    this.#plain.absorb();
    if (this.#lifecycle.beginDrain()) {
      this.#pump.schedule();
      this.#lifecycle.settle();
    }
    return this.#lifecycle.drained;
  }

  /** Rejects everything that waits or runs with `closed`, aborts the running batches' signals, and takes nothing new. */
  close(): void {
    if (this.#lifecycle.state === "closed") {
      return;
    }
    this.#plain.absorb();
    this.#lifecycle.state = "closed";
    this.#departures.close(this.#inFlight, new BatcherError("closed", "the batcher was closed"));
  }

  /** Counts so far and the present state, as a copy. */
  stats(): BatcherStats {
    this.#plain.absorb();
    return statsOf({
      counters: this.#counters,
      queue: this.#queue,
      inFlightBatches: this.#inFlight.batches.length,
      cost: this.#cost,
      nowMs: this.#options.clock.now(),
    });
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
    const plain = this.#plain;
    plain.absorb();
    if (this.#lifecycle.state !== "open" || this.#options.sizeOf !== undefined) {
      return false;
    }
    plain.room = this.#room.plain;
    if (plain.room < 1) {
      return false;
    }
    this.#arrivals.ofTick();
    this.#pump.considerPlain();
    return true;
  }
}
