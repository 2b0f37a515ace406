import { BatcherError } from "../batcher-error.ts";
import { refuseUnknown } from "../unknown-options.ts";
import type { TimerHandle } from "../clock.ts";
import { systemClock } from "../clock.ts";
import { DeadlineHeap } from "../deadline-heap.ts";
import type { RingSchema, SharedRing, SlotViews } from "./ring-memory.ts";
import type { RingPortOptions } from "./ring-port.ts";
import { RingPort } from "./ring-port.ts";
import { FULL } from "./ring-protocol.ts";

export interface RingProducerOptions extends RingPortOptions {
  /** Items that may wait in this thread for room in the ring. Default 1024. 0: a full ring refuses at once. */
  readonly maxWaitingItems?: number;
}

const OPTION_NAMES = Object.keys({
  maxWaitingItems: true,
  spinMicros: true,
} satisfies Record<keyof RingProducerOptions, true>);

export interface RingSubmitOptions {
  /** Rejects with `cancelled` when aborted. What is in the ring by then may still run, unless all of its batch has left. */
  readonly signal?: AbortSignal | undefined;
  /** Rejects with `deadline_exceeded` after this many milliseconds from now. */
  readonly deadlineMs?: number | undefined;
}

export interface RingProducerStats {
  readonly submittedItems: number;
  readonly completedItems: number;
  readonly failedItems: number;
  readonly refusedItems: number;
  readonly cancelledItems: number;
  readonly expiredItems: number;
  readonly closedItems: number;
  readonly waitingItems: number;
  readonly itemsInRing: number;
}

/** Rows of a slot: writes inputs before the run, reads outputs after it. */
type RowsCallback<Schema extends RingSchema, Value> = (views: SlotViews<Schema>, row: number, size: number) => Value;

interface RingItem<Schema extends RingSchema> {
  readonly size: number;
  readonly deadlineAtMs: number;
  state: "waiting" | "inRing" | "settled";
  row: number;
  slot: number;
  readonly write: RowsCallback<Schema, void>;
  readonly settle: (views: SlotViews<Schema>, row: number) => void;
  readonly reject: (error: BatcherError) => void;
  unlisten: (() => void) | undefined;
}

/**
 * One thread's end of a ring for those who submit. Items go into the open batch at once, straight from `write` into
 * shared memory; when the batch was run, `read` gets the rows of the same item to take its result from.
 *
 * Invariants:
 * - An item is in `#waiting` while its state is `waiting`, and in its slot's list while it is `inRing`.
 * - Waiting items go into the ring in the order in which they came.
 */
export class RingProducer<Schema extends RingSchema> {
  readonly #port: RingPort<Schema>;
  readonly #maxWaitingItems: number;
  /** For each slot this thread's items in its present batch. */
  readonly #inRing: RingItem<Schema>[][];
  #waiting: RingItem<Schema>[] = [];
  #isPlacing = false;
  readonly #deadlines = {
    waiting: new DeadlineHeap<RingItem<Schema>>("waiting"),
    inRing: new DeadlineHeap<RingItem<Schema>>("inRing"),
  };
  #deadlineTimer: TimerHandle;
  #deadlineTimerAtMs = Infinity;
  readonly #counts = {
    submittedItems: 0,
    completedItems: 0,
    failedItems: 0,
    refusedItems: 0,
    cancelledItems: 0,
    expiredItems: 0,
    closedItems: 0,
  };

  /** Joins the ring. Throws `overloaded` when it has `maxProducers` producers. */
  constructor(ring: SharedRing<Schema>, options: RingProducerOptions = {}) {
    refuseUnknown(options, OPTION_NAMES);
    const { maxWaitingItems = 1024, ...portOptions } = options;
    this.#maxWaitingItems = maxWaitingItems;
    this.#inRing = Array.from({ length: ring.slots }, () => []);
    this.#port = new RingPort(
      ring,
      {
        onPublished: (slot, error) => this.#published(slot, error),
        onRoom: () => this.#placeWaiting(),
        onEnded: (error) => this.#failAll(error),
      },
      portOptions,
    );
  }

  /** Of this producer, never another's: `buryProducer(ring, id)` when its thread is gone. */
  get id(): number {
    return this.#port.id;
  }

  /**
   * Puts an item of `size` rows into the ring. `write` fills its rows of the inputs and is called once, at once or when
   * there is room; `read` makes the result from its rows of the outputs and must copy what it keeps. Row `i` of a field
   * with `n` elements a row starts at `i * n`. Rejects with a `BatcherError`.
   */
  submit<Result>(
    size: number,
    write: RowsCallback<Schema, void>,
    read: RowsCallback<Schema, Result>,
    options: RingSubmitOptions = {},
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#counts.submittedItems += 1;
      // A turn of the loop may be long: results would wait for its end, and items for room.
      this.#port.settlePublished();
      const refused = this.#refusal(size, options);
      if (refused !== undefined) {
        this.#counts.refusedItems += 1;
        reject(refused);
        return;
      }
      const { signal, deadlineMs = Infinity } = options;
      const item: RingItem<Schema> = {
        size,
        deadlineAtMs: deadlineMs < Infinity ? performance.now() + deadlineMs : Infinity,
        state: "waiting",
        row: -1,
        slot: -1,
        write,
        settle: (views, row) => {
          let result: Result;
          try {
            result = read(views, row, size);
          } catch (cause) {
            this.#counts.failedItems += 1;
            reject(new BatcherError("invalid_argument", "read threw", { cause }));
            return;
          }
          this.#counts.completedItems += 1;
          resolve(result);
        },
        reject,
        unlisten: undefined,
      };
      if (this.#waiting.length > 0) {
        this.#placeWaiting();
      }
      // Never past those that wait: first come, first served.
      if (this.#waiting.length > 0 || !this.#place(item)) {
        const overloaded = this.#wait(item);
        if (overloaded !== undefined) {
          this.#counts.refusedItems += 1;
          reject(overloaded);
          return;
        }
      }
      if (signal !== undefined && item.state !== "settled") {
        const onAbort = (): void => this.#cancel(item, signal);
        signal.addEventListener("abort", onAbort);
        item.unlisten = () => signal.removeEventListener("abort", onAbort);
      }
    });
  }

  /** Rejects what is in this thread with `closed` and leaves the ring. The ring lives on for the others. */
  leave(): void {
    this.#failAll(new BatcherError("closed", "the producer has left the ring"));
    this.#port.leave();
  }

  stats(): RingProducerStats {
    const itemsInRing = this.#inRing.reduce((sum, items) => sum + countIn(items, "inRing"), 0);
    return { ...this.#counts, waitingItems: countIn(this.#waiting, "waiting"), itemsInRing };
  }

  #refusal(size: number, { signal, deadlineMs = Infinity }: RingSubmitOptions): BatcherError | undefined {
    const { ended } = this.#port;
    if (ended !== undefined) {
      return ended;
    }
    const limit = this.#port.maxBatchSize;
    if (!Number.isInteger(size) || size < 1) {
      return new BatcherError("invalid_argument", `size: expected a whole number from 1, received ${String(size)}`);
    }
    if (size > limit) {
      const message = `the item is too large: its size is ${size}, and maxBatchSize is ${limit}`;
      return new BatcherError("too_large", message, { limitName: "maxBatchSize", limit, current: size });
    }
    if (signal?.aborted === true) {
      return new BatcherError("cancelled", "the item was cancelled", { cause: signal.reason });
    }
    return deadlineMs > 0
      ? undefined
      : new BatcherError("deadline_exceeded", "the deadline had passed before the item came");
  }

  /** Writes an item into the open batch; false if the ring is full. */
  #place(item: RingItem<Schema>): boolean {
    const port = this.#port;
    const { deadlineAtMs } = item;
    const place =
      deadlineAtMs < Infinity
        ? port.reserve(item.size, Math.max(0, deadlineAtMs - performance.now()))
        : port.reserve(item.size);
    if (place === FULL) {
      return false;
    }
    const slot = port.slotOf(place);
    if (deadlineAtMs < Infinity) {
      if (item.state === "waiting" && item.slot === WAITS) {
        this.#deadlines.waiting.left();
      }
      this.#deadlines.inRing.push(item);
      this.#armDeadline(deadlineAtMs);
    }
    item.state = "inRing";
    item.slot = slot;
    item.row = port.rowOf(place);
    (this.#inRing[slot] as RingItem<Schema>[]).push(item);
    try {
      item.write(port.views(slot), item.row, item.size);
    } catch (cause) {
      this.#counts.failedItems += 1;
      this.#abandon(item, new BatcherError("invalid_argument", "write threw", { cause }));
    }
    port.commit(place, item.size);
    return true;
  }

  #wait(item: RingItem<Schema>): BatcherError | undefined {
    const limit = this.#maxWaitingItems;
    if (this.#waiting.length >= limit) {
      // Those that were settled meanwhile do not count.
      this.#waiting = this.#waiting.filter(({ state }) => state === "waiting");
      const current = this.#waiting.length;
      if (current >= limit) {
        const message = `the ring is full, and as many items wait for room as may: maxWaitingItems is ${limit}`;
        return new BatcherError("overloaded", message, {
          limitName: "maxWaitingItems",
          limit,
          current,
          retryAfterMs: this.#port.retryAfterMs(this.#waiting.reduce((sum, { size }) => sum + size, 0)),
        });
      }
    }
    item.slot = WAITS;
    this.#waiting.push(item);
    if (item.deadlineAtMs < Infinity) {
      this.#deadlines.waiting.push(item);
      this.#armDeadline(item.deadlineAtMs);
    }
    this.#port.awaitRoom();
    return undefined;
  }

  #placeWaiting(): void {
    // A `write` may submit: what that brings is put behind those that wait.
    if (this.#isPlacing) {
      return;
    }
    this.#isPlacing = true;
    try {
      for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
        if (first.state === "waiting" && !this.#place(first)) {
          break;
        }
        // Unless a `write` that submitted has had those taken out that wait no more.
        if (this.#waiting[0] === first) {
          this.#waiting.shift();
        }
      }
    } finally {
      this.#isPlacing = false;
    }
    if (this.#waiting.length > 0) {
      this.#port.awaitRoom();
    }
  }

  #published(slot: number, error: BatcherError | undefined): void {
    const items = this.#inRing[slot] as RingItem<Schema>[];
    const views = this.#port.views(slot);
    for (const item of items) {
      if (item.state === "inRing") {
        this.#settle(item);
        if (error === undefined) {
          item.settle(views, item.row);
        } else {
          this.#counts.failedItems += 1;
          item.reject(error);
        }
      }
    }
    items.length = 0;
  }

  #cancel(item: RingItem<Schema>, signal: AbortSignal): void {
    if (item.state !== "settled") {
      this.#counts.cancelledItems += 1;
      this.#abandon(item, new BatcherError("cancelled", "the item was cancelled", { cause: signal.reason }));
    }
  }

  /** Rejects an item that waits or is in the ring; its rows there stay, for nobody. */
  #abandon(item: RingItem<Schema>, error: BatcherError): void {
    if (item.state === "inRing") {
      this.#port.abandon(item.slot, item.size);
    }
    this.#settle(item);
    item.reject(error);
  }

  #settle(item: RingItem<Schema>): void {
    const { state } = item;
    item.state = "settled";
    item.unlisten?.();
    if (item.deadlineAtMs < Infinity && state !== "settled") {
      const { waiting, inRing } = this.#deadlines;
      this.#deadlines[state].left();
      if (waiting.live + inRing.live === 0) {
        // It would keep the process alive, for nobody.
        this.#stopDeadline();
      }
    }
  }

  #failAll(error: BatcherError): void {
    const items = [...this.#waiting, ...this.#inRing.flat()];
    this.#waiting = [];
    for (const item of items) {
      if (item.state !== "settled") {
        this.#counts.closedItems += 1;
        this.#settle(item);
        item.reject(error);
      }
    }
  }

  #stopDeadline(): void {
    if (this.#deadlineTimerAtMs < Infinity) {
      systemClock.cancel(this.#deadlineTimer);
      this.#deadlineTimerAtMs = Infinity;
    }
  }

  #armDeadline(atMs: number): void {
    if (atMs < this.#deadlineTimerAtMs) {
      this.#stopDeadline();
      this.#deadlineTimerAtMs = atMs;
      this.#deadlineTimer = systemClock.schedule(this.#onDeadline, atMs - performance.now(), false);
    }
  }

  readonly #onDeadline = (): void => {
    this.#deadlineTimerAtMs = Infinity;
    const nowMs = performance.now();
    for (const deadlines of [this.#deadlines.waiting, this.#deadlines.inRing]) {
      for (let item = deadlines.peek(); item !== undefined && item.deadlineAtMs <= nowMs; item = deadlines.peek()) {
        this.#counts.expiredItems += 1;
        this.#abandon(item, new BatcherError("deadline_exceeded", "the deadline passed before the result was there"));
      }
    }
    const nextMs = Math.min(this.#deadlines.waiting.earliestMs(), this.#deadlines.inRing.earliestMs());
    if (nextMs < Infinity) {
      this.#armDeadline(nextMs);
    }
  };
}

/** Slot of an item that waits for room. */
const WAITS = -2;

function countIn(items: readonly { readonly state: string }[], state: string): number {
  return items.reduce((count, item) => count + (item.state === state ? 1 : 0), 0);
}
