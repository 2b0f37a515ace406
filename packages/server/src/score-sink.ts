/** Who hears of an abort: a function or, as for any `EventTarget`, an object with a method for it. */
export type AbortListener = (() => void) | { handleEvent(): void };

/** What is asked of an AbortSignal to learn that nobody waits for an answer any more. */
export interface CancelSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: AbortListener): void;
  removeEventListener(type: "abort", listener: AbortListener): void;
}

/** Who gets the scores of one request: exactly one call of `scored` or `failed`, neither of which may throw. */
export interface ScoreSink extends CancelSignal {
  /** Milliseconds from now until nobody waits any more; undefined for as long as it takes. */
  readonly deadlineMs: number | undefined;
  /** Scores are `scores[start, start + count)`, and theirs only during this call. `version` is the model's. */
  scored(scores: Float32Array, start: number, count: number, version: string): void;
  failed(error: unknown): void;
}
