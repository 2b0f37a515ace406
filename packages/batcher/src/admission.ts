import type { Arrival } from "./arrival.ts";
import type { Arrivals } from "./arrivals.ts";
import { BatcherError } from "./batcher-error.ts";
import type { Departures } from "./departures.ts";
import type { EntryState, ItemOwner, OnSettled } from "./entry.ts";
import { Entry, failLater, NO_PART } from "./entry.ts";
import type { EntryQueue } from "./entry-queue.ts";
import { cancelled, findRefusal, sizeOfItem, splitParts } from "./item-checks.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { ResolvedOptions } from "./options.ts";
import type { Pump } from "./pump.ts";
import type { QueueRoom } from "./queue-room.ts";
import type { Join } from "./split-item.ts";
import { SplitItem, tellJoined } from "./split-item.ts";
import type { CancelSignal, SubmitOptions } from "./submit-options.ts";

/** An item that `enqueue` took. */
export interface Enqueued {
  /** `settled` from when its outcome is known; `onSettled` hears of an error a moment later. */
  readonly state: EntryState;
}

interface Parts<Item, Result> {
  readonly options: ResolvedOptions<Item, Result>;
  readonly lifecycle: Lifecycle;
  readonly arrivals: Arrivals;
  readonly room: QueueRoom<Item, Result>;
  readonly queue: EntryQueue<Item, Result>;
  readonly departures: Departures<Item, Result>;
  readonly pump: Pump<Item, Result>;
}

/** Takes items that are not plain into the queue, whole or in parts, or says why not. */
export class Admission<Item, Result> {
  readonly #options: ResolvedOptions<Item, Result>;
  readonly #lifecycle: Lifecycle;
  readonly #arrivals: Arrivals;
  readonly #room: QueueRoom<Item, Result>;
  readonly #queue: EntryQueue<Item, Result>;
  readonly #departures: Departures<Item, Result>;
  readonly #pump: Pump<Item, Result>;

  constructor({ options, lifecycle, arrivals, room, queue, departures, pump }: Parts<Item, Result>) {
    this.#options = options;
    this.#lifecycle = lifecycle;
    this.#arrivals = arrivals;
    this.#room = room;
    this.#queue = queue;
    this.#departures = departures;
    this.#pump = pump;
  }

  /** Throws what the getters of `options` throw. */
  take(item: Item, options: SubmitOptions, onSettled: OnSettled<Result> | ItemOwner<Result>): Enqueued | BatcherError {
    if (this.#lifecycle.state !== "open") {
      return this.#lifecycle.refusal();
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
    const arrival = deadlineMs < Infinity ? this.#arrivals.now() : this.#arrivals.ofTick();
    if (size > this.#options.maxBatchSize) {
      return this.#takeParts(item, size, options, arrival, onSettled);
    }
    const refused = this.#makeRoom(1, size, priority);
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
    const onAbort = (): void => this.#departures.cancel(entry, cancelled(signal.reason));
    signal.addEventListener("abort", onAbort);
    entry.unlisten = () => signal.removeEventListener("abort", onAbort);
  }

  #takeParts(
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
    const refused = this.#makeRoom(parts.length, partsSize, priority);
    if (refused !== undefined) {
      return refused;
    }
    const onAbort = (): void => {
      const error = cancelled(signal?.reason);
      whole.entries.forEach((entry) => this.#departures.cancel(entry, error));
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
        whole.entries.forEach((entry) => this.#departures.drop(entry, error));
      },
    );
    whole.entries = parts.map((part, i) => new Entry(part.size, priority, arrival, deadlineAtMs, whole, i));
    signal?.addEventListener("abort", onAbort);
    whole.entries.forEach((entry, i) => this.#enqueue(entry, (parts[i] as { readonly item: Item }).item));
    return whole;
  }

  /** Why there is none, if so. */
  #makeRoom(items: number, size: number, priority: number): BatcherError | undefined {
    const refused = this.#room.make(items, size, priority, this.#departures.evict);
    // A callback, of an item that gives way or of this one's size, may have ended it all.
    return this.#lifecycle.state === "open" ? refused : this.#lifecycle.refusal();
  }

  #enqueue(entry: Entry<Result>, item: Item): void {
    this.#queue.push(entry, item);
    this.#arrivals.count(entry.arrival, 1, entry.size);
    const { deadlineAtMs } = entry;
    if (deadlineAtMs < Infinity) {
      this.#departures.deadlines.queued(entry);
    }
    this.#pump.consider(0, deadlineAtMs);
  }
}
