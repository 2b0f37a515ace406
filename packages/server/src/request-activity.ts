/**
 * How many requests a server has, and how far they are. A request is `inFlight` from its headers to the end of its answer,
 * and meanwhile `scoring` once the batcher has it: `scoring <= inFlight`.
 */
export class RequestActivity {
  #inFlight = 0;
  #scoring = 0;
  readonly #waiting = new Set<() => void>();

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether every request has reached the batcher: none is being read or answered. */
  get allScoring(): boolean {
    return this.#inFlight === this.#scoring;
  }

  readonly enter = (): void => {
    this.#inFlight++;
  };

  readonly leave = (): void => {
    this.#inFlight--;
    this.#changed();
  };

  scoringStarted(): void {
    this.#scoring++;
    this.#changed();
  }

  scoringEnded(): void {
    this.#scoring--;
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
