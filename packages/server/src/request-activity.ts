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

  enter(): void {
    (this.#cells[IN_FLIGHT] as number) += 1;
  }

  leave(): void {
    (this.#cells[IN_FLIGHT] as number) -= 1;
    this.changed();
  }

  scoringStarted(): void {
    (this.#cells[SCORING] as number) += 1;
    this.changed();
  }

  scoringEnded(): void {
    (this.#cells[SCORING] as number) -= 1;
    this.changed();
  }

  /** Resolves as soon as `condition` holds after a change, or holds already. `changed` tells of changes of other things. */
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

  changed(): void {
    // Nobody waits as long as the server serves.
    if (this.#waiting.size > 0) for (const check of this.#waiting) check();
  }
}

/**
 * One request of an activity, from when it is made until it leaves. It scores no longer than it is there, whatever order its
 * caller's going and its outcome come in: else another one, whose message has not come, would be taken for one that scores.
 */
export class ActiveRequest {
  readonly #activity: RequestActivity;
  #isScoring = false;
  #hasLeft = false;

  constructor(activity: RequestActivity) {
    this.#activity = activity;
    activity.enter();
  }

  scoringStarted(): void {
    if (this.#hasLeft) return;
    this.#isScoring = true;
    this.#activity.scoringStarted();
  }

  scoringEnded(): void {
    if (!this.#isScoring) return;
    this.#isScoring = false;
    this.#activity.scoringEnded();
  }

  leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.scoringEnded();
    this.#activity.leave();
  }
}
