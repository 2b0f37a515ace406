import { BatcherError } from "../batcher-error.ts";

/**
 * Longest look before a sleep, microseconds, unless said otherwise: what it costs two threads to go to sleep and wake each
 * other, so that to look in vain at most doubles that.
 */
export const SPIN_MICROS = 20;
/** Looks between two readings of the clock, which takes as long as some of them. */
const LOOKS_A_READING = 16;
/**
 * A look pays that finds what it looks for in this share of its time. Not all of it, as where threads share a core one may
 * find something only because the other was given its place.
 */
const PAYS_WITHIN = 0.75;
/** A look that pays earns one, up to so many, */
const MOST_CREDIT = 8;
/** and one in vain costs so many: it takes twice what the other saves. */
const VAIN_COSTS = 2;
/** With so much a trial begins: some looks in a row, as a first one may be in vain only because both threads were asleep. */
const TRIAL_CREDIT = 4;
/** After a trial that ends in vain so many waits go without a look, after the next ones more, up to a limit. */
const FIRST_SKIPPED = 4;
const SKIPPED_GROWTH = 4;
const MOST_SKIPPED = 256;

/**
 * Whether a thread that has to wait should look for a moment before it sleeps. It should where the other thread answers in
 * less time than a wake takes. Where it does not, or both share a core, looks do not pay, and soon next to none are made.
 */
export class AdaptiveSpin {
  readonly #lookMs: number;
  #credit = TRIAL_CREDIT;
  #toSkip = 0;
  #skipNext = FIRST_SKIPPED;

  /** `spinMicros`: the longest look; 0 for none. */
  constructor(spinMicros: number = SPIN_MICROS) {
    if (!(spinMicros >= 0)) {
      const message = `spinMicros: expected 0 or more microseconds, received ${String(spinMicros)}`;
      throw new BatcherError("invalid_options", message);
    }
    this.#lookMs = spinMicros / 1000;
  }

  /** Whether the thread looks before it sleeps, at present. */
  get looks(): boolean {
    return this.#toSkip === 0 && this.#lookMs > 0;
  }

  /** Whether to look before the next wait; counts as a wait. */
  worthwhile(): boolean {
    if (this.#toSkip > 0) {
      this.#toSkip -= 1;
      return false;
    }
    return this.#lookMs > 0;
  }

  /** Begins a trial at once: something has changed. */
  retry(): void {
    this.#toSkip = 0;
  }

  /** Looks until `ready` says so; false if it has not in time. See `PAYS_WITHIN`. */
  look(ready: () => boolean): boolean {
    if (ready()) {
      this.#paid();
      return true;
    }
    const startMs = performance.now();
    let elapsedMs = 0;
    do {
      for (let i = 0; i < LOOKS_A_READING; i += 1) {
        if (ready()) {
          if (elapsedMs <= this.#lookMs * PAYS_WITHIN) {
            this.#paid();
          } else {
            this.#vain();
          }
          return true;
        }
      }
      elapsedMs = performance.now() - startMs;
    } while (elapsedMs < this.#lookMs);
    this.#vain();
    return false;
  }

  #paid(): void {
    if (this.#credit < MOST_CREDIT) {
      this.#credit += 1;
    } else {
      this.#skipNext = FIRST_SKIPPED;
    }
  }

  #vain(): void {
    this.#credit -= VAIN_COSTS;
    if (this.#credit <= 0) {
      this.#credit = TRIAL_CREDIT;
      this.#toSkip = this.#skipNext;
      this.#skipNext = Math.min(MOST_SKIPPED, this.#skipNext * SKIPPED_GROWTH);
    }
  }
}
