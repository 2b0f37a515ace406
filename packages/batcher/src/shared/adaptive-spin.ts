import { BatcherError } from "../batcher-error.ts";

/**
 * Longest look before a sleep, microseconds, unless said otherwise: what it costs two threads to go to sleep and wake each
 * other, so that to look in vain at most doubles that.
 */
export const SPIN_MICROS = 20;
/** Looks between two readings of the clock, which takes as long as some of them. */
const LOOKS_A_READING = 16;
/** At most so many waits in a row go without a look. */
const MOST_SKIPPED = 64;
/** A look that does not pay makes these times as many waits go without one; each that does, half as many. */
const BACK_OFF = 4;
/**
 * A look pays that finds what it looks for in this share of its time. Not all of it, as where threads share a core one may
 * find something only because the other was given its place.
 */
const PAYS_WITHIN = 0.75;

/**
 * Whether a thread that has to wait should look for a moment before it sleeps. It should where the other thread answers in
 * less time than a wake takes. Where it does not, or both share a core, looks do not pay, and soon next to none are made.
 */
export class AdaptiveSpin {
  readonly #lookMs: number;
  #toSkip = 0;
  #skipNext = 1;

  /** `spinMicros`: the longest look; 0 for none. */
  constructor(spinMicros: number = SPIN_MICROS) {
    if (!(spinMicros >= 0)) {
      const message = `spinMicros: expected 0 or more microseconds, received ${String(spinMicros)}`;
      throw new BatcherError("invalid_options", message);
    }
    this.#lookMs = spinMicros / 1000;
  }

  /** Whether to look before the next wait; counts as a wait. */
  worthwhile(): boolean {
    if (this.#toSkip > 0) {
      this.#toSkip -= 1;
      return false;
    }
    return this.#lookMs > 0;
  }

  /** Looks until `ready` says so; false if it has not in time. See `PAYS_WITHIN`. */
  look(ready: () => boolean): boolean {
    if (ready()) {
      this.#learn(true);
      return true;
    }
    const startMs = performance.now();
    let elapsedMs = 0;
    do {
      for (let i = 0; i < LOOKS_A_READING; i += 1) {
        if (ready()) {
          this.#learn(elapsedMs <= this.#lookMs * PAYS_WITHIN);
          return true;
        }
      }
      elapsedMs = performance.now() - startMs;
    } while (elapsedMs < this.#lookMs);
    this.#learn(false);
    return false;
  }

  #learn(paid: boolean): void {
    if (paid) {
      this.#skipNext = Math.max(1, this.#skipNext >> 1);
    } else {
      this.#toSkip = this.#skipNext;
      this.#skipNext = Math.min(MOST_SKIPPED, this.#skipNext * BACK_OFF);
    }
  }
}
