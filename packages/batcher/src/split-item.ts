import type { BatcherError } from "./batcher-error.ts";

/** An item that was cut into parts: joins their results, or fails with the first part that fails. */
export class SplitItem<Result> {
  readonly #results: Result[];
  #missing: number;
  #settled = false;
  readonly #done: (results: readonly Result[]) => void;
  readonly #failed: (error: BatcherError) => void;

  /** Calls one of `done` and `failed`, once. */
  constructor(parts: number, done: (results: readonly Result[]) => void, failed: (error: BatcherError) => void) {
    this.#results = Array.from({ length: parts });
    this.#missing = parts;
    this.#done = done;
    this.#failed = failed;
  }

  resolvePart(index: number, result: Result): void {
    this.#results[index] = result;
    this.#missing -= 1;
    if (this.#missing === 0 && !this.#settled) {
      this.#settled = true;
      this.#done(this.#results);
    }
  }

  rejectPart(error: BatcherError): void {
    if (!this.#settled) {
      this.#settled = true;
      this.#failed(error);
    }
  }
}
