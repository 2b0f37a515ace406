import { BatcherError } from "../batcher-error.ts";
import { AdaptiveSpin, SPIN_MICROS } from "./adaptive-spin.ts";
import { KeepAlive } from "./keep-alive.ts";
import type { RingSchema, SharedRing, SlotMemory, SlotViews } from "./ring-memory.ts";
import { mapSlots, readMessage, shapeOf, sharedNowMs } from "./ring-memory.ts";
import type { RingShape } from "./ring-protocol.ts";
import {
  abandon,
  buryProducer,
  CLOSED,
  commit,
  CONSUMER_GONE,
  DRAINING,
  FULL,
  isFullAt,
  join,
  LIFECYCLE,
  OPEN,
  OPEN_SEQUENCE,
  PUBLISHED,
  release,
  reserve,
  rowOfPlace,
  slotAt,
  slotOfPlace,
  STATUS,
  STATUS_OK,
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

/** Longest look, microseconds, that other I/O of this thread must wait for, */
const QUICK_MICROS = 5;
/** and how many there may be in a row. */
const MOST_QUICK_LOOKS = 16;
const RESOLVED = Promise.resolve();
/** Not in browsers. */
const { setImmediate } = globalThis as { setImmediate?: (callback: () => void) => unknown };

/**
 * One thread's end of a ring for producers, without promises: nothing is allocated for an item, and places are integers.
 * For each item: `reserve`, write the inputs into its rows, `commit`. `RingProducer` is the comfortable form.
 */
export class RingPort<Schema extends RingSchema> {
  /** Number of this producer in the ring: `buryProducer(ring, id)` when its thread is gone. */
  readonly id: number;
  readonly maxBatchSize: number;
  readonly #shape: RingShape;
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #slots: SlotMemory<Schema>[];
  readonly #handlers: RingPortHandlers;
  readonly #keepAlive = new KeepAlive();
  /** Whether this port waits for the results of a slot's present batch. */
  readonly #waits: boolean[];
  #waitsFor = 0;
  #awaitsRoom = false;
  #left = false;
  /** When the items came that are put in in one go; 0 when the clock is to be read. */
  #tickMs = 0;
  /** Slots whose results nobody looks for yet; those that came in this go. */
  #toAwait: number[] = [];
  /** Slots that `#look` looks at. */
  #looksAt: number[] = [];
  #lookScheduled = false;
  readonly #spin: AdaptiveSpin;
  /** For looks at the end of a tick, before I/O that may be ready. */
  readonly #quickSpin: AdaptiveSpin;
  #quickLooks = 0;
  /** `PUBLISHED` of each slot when this port took its first rows there. */
  readonly #before: number[];
  #toldEnded = false;

  /** Joins the ring. Throws `overloaded` when `maxProducers` have joined before. */
  constructor(ring: SharedRing<Schema>, handlers: RingPortHandlers, options: RingPortOptions = {}) {
    const { spinMicros = SPIN_MICROS } = options;
    this.#spin = new AdaptiveSpin(spinMicros);
    this.#quickSpin = new AdaptiveSpin(Math.min(spinMicros, QUICK_MICROS));
    this.#shape = shapeOf(ring);
    this.#control = new Int32Array(ring.control);
    this.#slots = mapSlots(ring);
    this.#handlers = handlers;
    this.#waits = Array.from({ length: ring.slots }, () => false);
    this.#before = Array.from({ length: ring.slots }, () => 0);
    this.maxBatchSize = ring.maxBatchSize;
    this.id = join(this.#control, this.#shape);
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
   * must be committed before this thread waits for anything: the batch waits for it.
   */
  reserve(size: number): number {
    const place = reserve(this.#control, this.#shape, this.id, size);
    if (place !== FULL) {
      const slot = slotOfPlace(place);
      const memory = this.#slots[slot] as SlotMemory<Schema>;
      const row = rowOfPlace(place);
      memory.arrivals[row] = this.#arrivalMs();
      Atomics.store(memory.sizes, row, size);
      if (this.#waits[slot] === false) {
        this.#awaitResults(slot);
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
    return (this.#slots[slot] as SlotMemory<Schema>).views;
  }

  /** Says that the rows of a place are written. */
  commit(place: number, size: number): void {
    commit(this.#control, this.#shape, this.id, slotOfPlace(place), size);
  }

  /** Says that nobody waits for the rows of a place any more, before their batch is published: all such batches are not run. */
  abandon(slot: number, size: number): void {
    if (!this.#left) {
      abandon(this.#control, this.#shape, slot, size);
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
    this.#hold();
    const { async, value } = full
      ? Atomics.waitAsync(this.#control, OPEN_SEQUENCE, sequence)
      : { async: false as const, value: "not-equal" as const };
    const again = (): void => {
      if (!this.#awaitsRoom) {
        return;
      }
      this.#awaitsRoom = false;
      this.#letGo();
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

  /** Leaves the ring, which lives on for the others. Nothing more is called back. */
  leave(): void {
    if (!this.#left) {
      this.#left = true;
      this.#keepAlive.end();
      // Between its calls nothing of a port is half done, so it can be taken for dead.
      buryProducer(this.#control, this.#shape, this.id);
    }
  }

  #arrivalMs(): number {
    if (this.#tickMs === 0) {
      this.#tickMs = sharedNowMs();
      void RESOLVED.then(this.#endTick);
    }
    return this.#tickMs;
  }

  #awaitResults(slot: number): void {
    this.#waits[slot] = true;
    this.#before[slot] = Atomics.load(this.#control, slotAt(this.#shape, slot) + PUBLISHED);
    // The end of this tick comes: its first item has read the clock.
    this.#toAwait.push(slot);
  }

  readonly #endTick = (): void => {
    this.#tickMs = 0;
    if (this.#toAwait.length === 0) {
      return;
    }
    const slots = this.#toAwait;
    this.#toAwait = [];
    if (this.#quickLooks < MOST_QUICK_LOOKS && this.#quickSpin.worthwhile()) {
      this.#quickLooks += 1;
      let whole = false;
      try {
        this.#lookFor(slots, this.#quickSpin);
        whole = true;
      } finally {
        if (!whole) {
          // A handler threw: the others still get theirs.
          this.#sleepOn(slots);
        }
      }
      if (slots.length === 0) {
        return;
      }
    }
    if (!this.#lookScheduled && (setImmediate === undefined || !this.#spin.worthwhile())) {
      this.#sleepOn(slots);
      return;
    }
    this.#looksAt.push(...slots);
    if (!this.#lookScheduled) {
      this.#lookScheduled = true;
      // Once the I/O that is ready now has been dealt with: what it brings may join the batch.
      setImmediate?.(this.#lookLater);
    }
  };

  readonly #lookLater = (): void => {
    this.#lookScheduled = false;
    this.#quickLooks = 0;
    const slots = this.#looksAt;
    this.#looksAt = [];
    try {
      this.#lookFor(slots, this.#spin);
    } finally {
      // What is left if a handler throws, too.
      this.#sleepOn(slots);
    }
  };

  /** Looks for the results of these slots, and takes those out that it has found. */
  #lookFor(slots: number[], spin: AdaptiveSpin): void {
    spin.look(() => {
      for (let i = slots.length - 1; i >= 0; i -= 1) {
        const slot = slots[i] as number;
        if (this.#isPublished(slot)) {
          slots.splice(i, 1);
          this.#published(slot);
        }
      }
      return slots.length === 0 || this.#left;
    });
  }

  #isPublished(slot: number): boolean {
    return Atomics.load(this.#control, slotAt(this.#shape, slot) + PUBLISHED) !== this.#before[slot];
  }

  #sleepOn(slots: readonly number[]): void {
    this.#quickLooks = 0;
    for (const slot of slots) {
      this.#sleepOnOne(slot);
    }
  }

  #sleepOnOne(slot: number): void {
    const at = slotAt(this.#shape, slot) + PUBLISHED;
    const before = this.#before[slot] as number;
    const check = (): void => {
      if (this.#left || this.#waits[slot] === false) {
        return;
      }
      if (this.#isPublished(slot)) {
        this.#letGo();
        this.#published(slot);
      } else if (!this.#checkEnded()) {
        wait();
      }
    };
    const wait = (): void => {
      const { async, value } = Atomics.waitAsync(this.#control, at, before);
      if (async) {
        void value.then(check);
      }
      if (!async || Atomics.load(this.#control, LIFECYCLE) >= CLOSED) {
        queueMicrotask(check);
      }
    };
    if (!this.#left) {
      this.#hold();
      wait();
    }
  }

  #published(slot: number): void {
    this.#waits[slot] = false;
    const failed = Atomics.load(this.#control, slotAt(this.#shape, slot) + STATUS) !== STATUS_OK;
    const error = failed
      ? new BatcherError("run_failed", readMessage((this.#slots[slot] as SlotMemory<Schema>).message))
      : undefined;
    this.#handlers.onPublished(slot, error);
    if (!this.#left) {
      release(this.#control, this.#shape, this.id, slot);
    }
  }

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
      this.#keepAlive.end();
      this.#handlers.onEnded?.(this.ended as BatcherError);
    }
    return true;
  }

  #hold(): void {
    this.#waitsFor += 1;
    if (this.#waitsFor === 1) {
      this.#keepAlive.hold();
    }
  }

  #letGo(): void {
    this.#waitsFor -= 1;
    if (this.#waitsFor === 0) {
      this.#keepAlive.letGo();
    }
  }
}
