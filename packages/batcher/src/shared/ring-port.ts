import { BatcherError } from "../batcher-error.ts";
import { refuseUnknown } from "../unknown-options.ts";
import { KeepAlive } from "./keep-alive.ts";
import { buryId, numberOf, takeNumber } from "./producer-numbers.ts";
import { ResultWatch } from "./result-watch.ts";
import { ANY_DEADLINE, RingHints } from "./ring-hints.ts";
import type { RingSchema, SharedRing, SlotMemory, SlotViews } from "./ring-memory.ts";
import { mapControl, mapMemories, readMessage, shapeOf, sharedNowMs } from "./ring-memory.ts";
import type { RingShape } from "./ring-protocol.ts";
import {
  abandon,
  CLOSED,
  commit,
  CONSUMER_GONE,
  DRAINING,
  FULL,
  isFullAt,
  LIFECYCLE,
  OPEN,
  OPEN_SEQUENCE,
  release,
  reserve,
  rowOfPlace,
  SLEEPING,
  slotAt,
  slotOfPlace,
  STATUS,
  STATUS_OK,
  STATUS_TIMED_OUT,
  wakeConsumer,
} from "./ring-protocol.ts";

export interface RingPortHandlers {
  /**
   * The batch of this slot is over: read the outputs of your rows now, the slot is used again after this returns. With
   * an error, the batch failed and there are no outputs. Called once for each batch in which this port has rows.
   */
  onPublished(slot: number, error: BatcherError | undefined): void;
  /** After `awaitRoom`: there may be room. */
  onRoom?(): void;
  /** The ring has ended: nothing will be published any more. */
  onEnded?(error: BatcherError): void;
}

export interface RingPortOptions {
  /**
   * Where the results of this thread's batches tend to be there that soon, it looks for them up to so many microseconds
   * before it sleeps, after the I/O that is ready. 0: it never does. Default 20, about what a wake costs.
   */
  readonly spinMicros?: number;
}

const OPTION_NAMES = Object.keys({ spinMicros: true } satisfies Record<keyof RingPortOptions, true>);

const RESOLVED = Promise.resolve();

/**
 * One thread's end of a ring for producers, without promises: nothing is allocated for an item, and places are integers.
 * For each item: `reserve`, write the inputs into its rows, `commit`. `RingProducer` is the comfortable form.
 */
export class RingPort<Schema extends RingSchema> {
  /** Of this producer, never another's: `buryProducer(ring, id)` when its thread is gone. */
  readonly id: number;
  readonly maxBatchSize: number;
  readonly #shape: RingShape;
  readonly #itemsAlone: boolean;
  /** What the ring's words know it by. */
  readonly #number: number;
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #numbers: Int32Array<SharedArrayBuffer>;
  readonly #hints: RingHints;
  /** Which of `#memory` each slot has; the same from when rows are taken there until they are run. */
  readonly #memories: Int32Array<SharedArrayBuffer>;
  readonly #memory: readonly SlotMemory<Schema>[];
  readonly #handlers: RingPortHandlers;
  readonly #keepAlive = new KeepAlive();
  readonly #results: ResultWatch;
  #awaitsRoom = false;
  #left = false;
  /** When the items came that are put in in one go; 0 when the clock is to be read. */
  #tickMs = 0;
  #toldEnded = false;

  /** Joins the ring. Throws `invalid_options`, or `overloaded` when it has `maxProducers` producers. */
  constructor(ring: SharedRing<Schema>, handlers: RingPortHandlers, options: RingPortOptions = {}) {
    refuseUnknown(options, OPTION_NAMES);
    this.#shape = shapeOf(ring);
    this.#itemsAlone = ring.itemsAlone;
    const { control, numbers, memories, hints } = mapControl(ring);
    this.#control = control;
    this.#numbers = numbers;
    this.#hints = new RingHints(hints);
    this.#memories = memories;
    this.#memory = mapMemories(ring);
    this.#handlers = handlers;
    const callbacks = { onPublished: this.#published, checkEnded: () => this.#checkEnded() };
    this.#results = new ResultWatch(this.#control, this.#shape, this.#keepAlive, callbacks, options.spinMicros);
    this.maxBatchSize = ring.maxBatchSize;
    this.id = takeNumber(control, this.#shape, numbers);
    this.#number = numberOf(this.id);
    if (this.id < 0) {
      const limit = ring.maxProducers;
      const message = `the ring has as many producers as it can: maxProducers is ${limit}`;
      throw new BatcherError("overloaded", message, { limitName: "maxProducers", limit, current: limit });
    }
  }

  /** Why nothing can be submitted, if so. */
  get ended(): BatcherError | undefined {
    if (this.#left) {
      return new BatcherError("closed", "the producer has left the ring");
    }
    switch (Atomics.load(this.#control, LIFECYCLE)) {
      case OPEN:
        return undefined;
      case DRAINING:
        return new BatcherError("draining", "the ring is draining and takes no new items");
      case CONSUMER_GONE:
        return new BatcherError("consumer_gone", "the thread that runs the ring's batches is gone");
      default:
        return new BatcherError("closed", "the ring is closed");
    }
  }

  /**
   * Takes `size` rows, from 1 to `maxBatchSize`, of the open batch. Returns their place, or `FULL`, -1. What was reserved
   * must be committed before this thread waits for anything: the batch waits for it. With `deadlineMs`, milliseconds from
   * now, a batch that waits for more items goes so early that its run can be over by then; the item does not expire.
   * After `onEnded` or `leave` nothing will come of a place, nor of `awaitRoom`: do not ask for one.
   */
  reserve(size: number, deadlineMs: number = Infinity): number {
    if (this.#left) {
      return FULL;
    }
    const place = reserve(this.#control, this.#shape, this.#number, this.#itemsAlone ? 1 : size);
    if (place !== FULL) {
      const slot = slotOfPlace(place);
      const memory = this.#memoryOf(slot);
      const row = rowOfPlace(place);
      const arrivalMs = this.#arrivalMs();
      memory.arrivals[row] = arrivalMs;
      memory.deadlines[row] = arrivalMs + deadlineMs;
      Atomics.store(memory.sizes, row, size);
      if (Atomics.load(this.#control, SLEEPING) === 1) {
        this.#wakeForDeadline(arrivalMs + deadlineMs);
      }
      if (!this.#results.watches(slot)) {
        this.#results.watch(slot);
      }
    }
    return place;
  }

  slotOf(place: number): number {
    return slotOfPlace(place);
  }

  rowOf(place: number): number {
    return rowOfPlace(place);
  }

  /** The arrays of a slot; row `i` of a field with `n` elements a row starts at `i * n`. */
  views(slot: number): SlotViews<Schema> {
    return this.#memoryOf(slot).views;
  }

  /** Says that the rows of a place are written. */
  commit(place: number, size: number): void {
    if (this.#left) {
      // Its number may be another's by now.
      return;
    }
    commit(this.#control, this.#shape, this.#number, slotOfPlace(place), this.#itemsAlone ? 1 : size);
  }

  /** Says that nobody waits for the rows of a place any more, before their batch is published: all such batches are not run. */
  abandon(slot: number, size: number): void {
    if (!this.#left) {
      abandon(this.#control, this.#shape, slot, this.#itemsAlone ? 1 : size);
    }
  }

  /** After `reserve` found the ring full: `onRoom` is called once it may no longer be. */
  awaitRoom(): void {
    if (this.#awaitsRoom) {
      return;
    }
    const sequence = Atomics.load(this.#control, OPEN_SEQUENCE);
    const full = isFullAt(this.#control, this.#shape, sequence);
    this.#awaitsRoom = true;
    this.#keepAlive.hold();
    const { async, value } = full
      ? Atomics.waitAsync(this.#control, OPEN_SEQUENCE, sequence)
      : { async: false as const, value: "not-equal" as const };
    const again = (): void => {
      if (!this.#awaitsRoom) {
        return;
      }
      this.#awaitsRoom = false;
      this.#keepAlive.letGo();
      if (!this.#checkEnded()) {
        this.#handlers.onRoom?.();
      }
    };
    if (async) {
      void value.then(again);
    }
    // Looked at after the wait began: who ends the ring tells those that wait then.
    if (!async || Atomics.load(this.#control, LIFECYCLE) >= CLOSED) {
      queueMicrotask(again);
    }
  }

  /**
   * Calls `onPublished` for the batches that are over by now, without a turn of your loop: for threads with long turns that read
   * more items meanwhile. Their slots are free then. Costs the read of a word for each batch that is waited for.
   */
  settlePublished(): void {
    this.#results.tellPublished();
  }

  /**
   * Estimate of when there is room again while rows of so many wait for it, milliseconds, at least 1: what a batch of them is
   * expected to take, by the cost that the consumer has learnt.
   */
  retryAfterMs(waitingSize: number): number {
    return Math.max(1, Math.ceil(this.#hints.runMs(Math.min(waitingSize, this.maxBatchSize))));
  }

  /** Leaves the ring, which lives on for the others. Nothing more is called back. */
  leave(): void {
    if (!this.#left) {
      this.#left = true;
      this.#results.stop();
      this.#keepAlive.end();
      // Between its calls nothing of a port is half done, so it can be taken for dead.
      buryId(this.#control, this.#shape, this.#numbers, this.id);
    }
  }

  #memoryOf(slot: number): SlotMemory<Schema> {
    return this.#memory[this.#memories[slot] as number] as SlotMemory<Schema>;
  }

  /** After the item's size can be seen, if the consumer sleeps: either it sees the item before it sleeps, or we see that it sleeps. */
  #wakeForDeadline(deadlineAtMs: number): void {
    const { wakesBeforeMs } = this.#hints;
    if (deadlineAtMs < wakesBeforeMs || wakesBeforeMs === ANY_DEADLINE) {
      wakeConsumer(this.#control);
    }
  }

  #arrivalMs(): number {
    if (this.#tickMs === 0) {
      this.#tickMs = sharedNowMs();
      void RESOLVED.then(this.#endTick);
    }
    return this.#tickMs;
  }

  readonly #endTick = (): void => {
    this.#tickMs = 0;
    this.#results.endTick();
  };

  readonly #published = (slot: number): void => {
    const status = Atomics.load(this.#control, slotAt(this.#shape, slot) + STATUS);
    const error =
      status === STATUS_OK
        ? undefined
        : new BatcherError(
            status === STATUS_TIMED_OUT ? "run_timeout" : "run_failed",
            readMessage(this.#memoryOf(slot).message),
          );
    try {
      this.#handlers.onPublished(slot, error);
    } finally {
      // If it throws, too: the others need the slot.
      if (!this.#left) {
        release(this.#control, this.#shape, this.#number, slot);
      }
    }
  };

  /** Tells of the end of the ring; false while it may still publish. */
  #checkEnded(): boolean {
    if (this.#left) {
      return true;
    }
    if (Atomics.load(this.#control, LIFECYCLE) < CLOSED) {
      return false;
    }
    if (!this.#toldEnded) {
      this.#toldEnded = true;
      // A ring that drains publishes its last batch and ends, both perhaps since that batch was looked for in vain.
      this.#results.end();
      this.#keepAlive.end();
      this.#handlers.onEnded?.(this.ended as BatcherError);
    }
    return true;
  }
}
