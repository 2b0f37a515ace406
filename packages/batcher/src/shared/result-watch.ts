import { AdaptiveSpin, SPIN_MICROS } from "./adaptive-spin.ts";
import type { KeepAlive } from "./keep-alive.ts";
import type { RingShape } from "./ring-protocol.ts";
import { CLOSED, consumerLooks, LIFECYCLE, PUBLISHED, slotAt } from "./ring-protocol.ts";

/** Longest look, microseconds, that other I/O of this thread must wait for, */
const QUICK_MICROS = 5;
/** and how many there may be in a row. */
const MOST_QUICK_LOOKS = 16;
/** Not in browsers. */
const { setImmediate } = globalThis as { setImmediate?: (callback: () => void) => unknown };

/**
 * How a producer's thread waits for the results of the slots in which it has rows: it looks for a moment where that has
 * paid lately, and sleeps then.
 *
 * Invariant: a slot is watched from `watch` until `onPublished` for it, `stop` or `end`; meanwhile it is
 * in one of `#new` (this tick's), `#looksAt`, the list of a look, or has a waiter on `PUBLISHED`. Where it was told of early, by
 * `tellPublished`, it may still be in a list or have its waiter, and be watched for its next batch, too.
 */
export class ResultWatch {
  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #shape: RingShape;
  readonly #keepAlive: KeepAlive;
  readonly #onPublished: (slot: number) => void;
  readonly #checkEnded: () => boolean;
  readonly #watched: boolean[];
  /** `PUBLISHED` of each slot when its watch began. */
  readonly #before: number[];
  /** Which have a waiter on `PUBLISHED`. */
  readonly #sleepsOn: boolean[];
  #new: number[] = [];
  #looksAt: number[] = [];
  #lookScheduled = false;
  readonly #spin: AdaptiveSpin;
  /** For looks at the end of a tick, before I/O that may be ready. */
  readonly #quickSpin: AdaptiveSpin;
  #quickLooks = 0;
  #consumerLooked = true;
  #stopped = false;

  /** `checkEnded` tells of the end of the ring when it finds it, and whether it did. */
  constructor(
    control: Int32Array<SharedArrayBuffer>,
    shape: RingShape,
    keepAlive: KeepAlive,
    callbacks: { readonly onPublished: (slot: number) => void; readonly checkEnded: () => boolean },
    spinMicros: number = SPIN_MICROS,
  ) {
    this.#control = control;
    this.#shape = shape;
    this.#keepAlive = keepAlive;
    this.#onPublished = callbacks.onPublished;
    this.#checkEnded = callbacks.checkEnded;
    this.#spin = new AdaptiveSpin(spinMicros);
    this.#quickSpin = new AdaptiveSpin(Math.min(spinMicros, QUICK_MICROS));
    this.#watched = Array.from({ length: shape.slots }, () => false);
    this.#before = Array.from({ length: shape.slots }, () => 0);
    this.#sleepsOn = Array.from({ length: shape.slots }, () => false);
  }

  /** Whether it waits for the results of a slot's present batch. */
  watches(slot: number): boolean {
    return this.#watched[slot] as boolean;
  }

  /** From when the first rows are taken there. `endTick` must follow in this tick. */
  watch(slot: number): void {
    this.#watched[slot] = true;
    this.#before[slot] = Atomics.load(this.#control, slotAt(this.#shape, slot) + PUBLISHED);
    this.#new.push(slot);
  }

  /** When all is put in that comes in one go. */
  endTick(): void {
    if (this.#new.length === 0 || this.#stopped) {
      return;
    }
    const slots = this.#new;
    this.#new = [];
    if (this.#looksQuickly()) {
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
  }

  /** Tells at once of what is published by now. */
  tellPublished(): void {
    for (let slot = 0; slot < this.#watched.length && !this.#stopped; slot += 1) {
      if (this.watches(slot) && this.#isPublished(slot)) {
        this.#published(slot);
      }
    }
  }

  /** The ring has ended: tells of what was published before, and of nothing more. */
  end(): void {
    this.tellPublished();
    this.stop();
  }

  /** Nothing is told of any more. */
  stop(): void {
    this.#stopped = true;
  }

  /**
   * Whether to look at once: where the consumer says that it looks for rows, too, and runs them quickly, and nothing else
   * of this thread waits for the ring.
   */
  #looksQuickly(): boolean {
    const looks = consumerLooks(this.#control);
    if (looks !== this.#consumerLooked) {
      this.#consumerLooked = looks;
      if (looks) {
        // Either side's looks are in vain as long as the other sleeps each time: both try together.
        this.#quickSpin.retry();
        this.#spin.retry();
      }
    }
    return (
      looks &&
      !this.#lookScheduled &&
      !this.#keepAlive.held &&
      this.#quickLooks < MOST_QUICK_LOOKS &&
      this.#quickSpin.worthwhile()
    );
  }

  readonly #lookLater = (): void => {
    this.#lookScheduled = false;
    this.#quickLooks = 0;
    const slots = this.#looksAt;
    this.#looksAt = [];
    if (this.#stopped) {
      return;
    }
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
        if (!this.watches(slot)) {
          slots.splice(i, 1);
        } else if (this.#isPublished(slot)) {
          slots.splice(i, 1);
          this.#published(slot);
        }
      }
      return slots.length === 0 || this.#stopped;
    });
  }

  #isPublished(slot: number): boolean {
    return Atomics.load(this.#control, slotAt(this.#shape, slot) + PUBLISHED) !== this.#before[slot];
  }

  #published(slot: number): void {
    this.#watched[slot] = false;
    this.#onPublished(slot);
  }

  #sleepOn(slots: readonly number[]): void {
    this.#quickLooks = 0;
    for (const slot of slots) {
      this.#sleepOnOne(slot);
    }
  }

  #sleepOnOne(slot: number): void {
    // Told of early; or its waiter for a batch that was is still there, and will look for this one.
    if (this.#stopped || !this.watches(slot) || this.#sleepsOn[slot]) {
      return;
    }
    this.#sleepsOn[slot] = true;
    this.#keepAlive.hold();
    const at = slotAt(this.#shape, slot) + PUBLISHED;
    const check = (): void => {
      // When the ring ends there are two of these; the other may have told of the batch.
      if (this.#stopped || !this.#sleepsOn[slot]) {
        return;
      }
      this.#sleepsOn[slot] = false;
      this.#keepAlive.letGo();
      if (!this.watches(slot)) {
        return;
      }
      if (this.#isPublished(slot)) {
        this.#published(slot);
      } else if (!this.#checkEnded()) {
        this.#sleepOnOne(slot);
      }
    };
    const { async, value } = Atomics.waitAsync(this.#control, at, this.#before[slot] as number);
    if (async) {
      void value.then(check);
    }
    if (!async || Atomics.load(this.#control, LIFECYCLE) >= CLOSED) {
      queueMicrotask(check);
    }
  }
}
