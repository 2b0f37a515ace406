/** What the consumer tells producers beside the protocol: numbers that are right by themselves, read and written without order. */
export const HINTS_FLOATS = 8;

/** While the consumer waits for more rows: an item whose deadline is before this, milliseconds since the epoch, wakes it. */
const WAKES_BEFORE_MS = 0;
const FIXED_MS = 1;
const PER_SIZE_MS = 2;

/** Of `wakesBeforeMs`: any item does, also one without a deadline. */
export const ANY_DEADLINE: number = Infinity;

export class RingHints {
  readonly #hints: Float64Array;

  constructor(hints: Float64Array) {
    this.#hints = hints;
  }

  get wakesBeforeMs(): number {
    return this.#hints[WAKES_BEFORE_MS] as number;
  }

  set wakesBeforeMs(timeMs: number) {
    this.#hints[WAKES_BEFORE_MS] = timeMs;
  }

  /** The learnt cost of a batch, by the number of those that run at a time. */
  tellCost(fixedMs: number, perSizeMs: number): void {
    this.#hints[FIXED_MS] = fixedMs;
    this.#hints[PER_SIZE_MS] = perSizeMs;
  }

  /** How long until a batch of this size has left the ring; 0 before the first has. */
  runMs(size: number): number {
    return (this.#hints[FIXED_MS] as number) + (this.#hints[PER_SIZE_MS] as number) * size;
  }
}
