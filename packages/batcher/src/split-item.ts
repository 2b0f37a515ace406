import { BatcherError } from "./batcher-error.ts";
import type { Entry, EntryState, ItemOwner, OnSettled } from "./entry.ts";
import { failLater, tell } from "./entry.ts";

/** The caller's `join`. */
export type Join<Item, Result> = (results: readonly Result[], item: Item) => Result;

/** An item that was cut into parts: joins their results, or fails with the first part that fails. */
export class SplitItem<Result> {
  /** One a part. */
  entries: readonly Entry<Result>[] = [];
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

  /** `running` as soon as one part is. */
  get state(): EntryState {
    if (this.#settled) {
      return "settled";
    }
    return this.entries.every(({ state }) => state === "queued") ? "queued" : "running";
  }

  settlePart(index: number, error: BatcherError | undefined, result: Result | undefined): void {
    if (this.#settled) {
      return;
    }
    if (error !== undefined) {
      this.#settled = true;
      this.#failed(error);
      return;
    }
    this.#results[index] = result as Result;
    this.#missing -= 1;
    if (this.#missing === 0) {
      this.#settled = true;
      this.#done(this.#results);
    }
  }
}

/** Joins the results of all parts and tells of the one of the whole, or of what `join` threw. */
export function tellJoined<Item, Result>(
  join: Join<Item, Result>,
  results: readonly Result[],
  item: Item,
  onSettled: OnSettled<Result> | ItemOwner<Result>,
): void {
  let result: Result;
  try {
    result = join(results, item);
  } catch (cause) {
    failLater(onSettled, new BatcherError("run_failed", "join threw", { cause }));
    return;
  }
  tell(onSettled, undefined, result);
}
