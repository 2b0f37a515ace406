const IN_FLIGHT = 0;
const SCORING = 1;

/** Elements that an activity needs. */
export const ACTIVITY_CELLS = 2;

/**
 * How many requests a server has, and how far they are. A request is `inFlight` from its headers to the end of its answer,
 * and meanwhile `scoring` once the batcher has it: `scoring <= inFlight`.
 */
export class RequestActivity {
  readonly #cells: Float64Array;
  readonly #waiting = new Set<() => void>();

  /** Counts in `cells`, which others may read. */
  constructor(cells: Float64Array = new Float64Array(ACTIVITY_CELLS)) {
    this.#cells = cells;
  }

  get inFlight(): number {
    return this.#cells[IN_FLIGHT] as number;
  }

  /** Whether every request has reached the batcher: none is being read or answered. */
  get allScoring(): boolean {
    return this.inFlight === this.#cells[SCORING];
  }

  readonly enter = (): void => {
    (this.#cells[IN_FLIGHT] as number) += 1;
  };

  readonly leave = (): void => {
    (this.#cells[IN_FLIGHT] as number) -= 1;
    this.#changed();
  };

  scoringStarted(): void {
    (this.#cells[SCORING] as number) += 1;
    this.#changed();
  }

  scoringEnded(): void {
    (this.#cells[SCORING] as number) -= 1;
    this.#changed();
  }

  /** Resolves as soon as `condition` holds after a change, or holds already. */
  until(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!condition()) return;
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
      check();
    });
  }

  #changed(): void {
    // Nobody waits as long as the server serves.
    if (this.#waiting.size > 0) for (const check of this.#waiting) check();
  }
}
