import { BatcherError } from "./batcher-error.ts";
import type { Counters } from "./batcher-stats.ts";
import type { Departures } from "./departures.ts";
import type { Waiting } from "./entry.ts";
import { failWith } from "./entry.ts";
import type { InFlight } from "./in-flight.ts";
import type { RunningBatch } from "./running-batch.ts";

/** Gives what came of a run to those who wait for it. */
export class Outcomes<Item, Result> {
  readonly #inFlight: InFlight<Item, Result>;
  readonly #departures: Departures<Item, Result>;
  readonly #counters: Counters;
  readonly #onRoom: () => void;

  /** `onRoom`: a batch has left, and all of it has been told. */
  constructor(
    inFlight: InFlight<Item, Result>,
    departures: Departures<Item, Result>,
    counters: Counters,
    onRoom: () => void,
  ) {
    this.#inFlight = inFlight;
    this.#departures = departures;
    this.#counters = counters;
    this.#onRoom = onRoom;
  }

  returned(batch: RunningBatch<Item, Result>, results: ArrayLike<Result | Error>): void {
    if (!this.#inFlight.end(batch, undefined)) {
      return;
    }
    const { waiting } = batch;
    let completed = 0;
    for (let i = 0; i < waiting.length; i += 1) {
      const one = waiting[i] as Waiting<Result>;
      const result = results[i] as Result | Error;
      if (typeof one === "function") {
        if (result instanceof Error) {
          this.#failItem(one, result);
        } else {
          completed += 1;
          one(result);
        }
      } else if (one.state !== "settled") {
        this.#departures.leave(one);
        if (result instanceof Error) {
          this.#failItem(one, result);
        } else {
          completed += 1;
          one.resolve(result);
        }
      }
    }
    this.#counters.completedItems += completed;
    this.#onRoom();
  }

  failed(batch: RunningBatch<Item, Result>, error: BatcherError): void {
    if (!this.#inFlight.end(batch, error)) {
      return;
    }
    this.#counters.failedBatches += 1;
    const fail = failWith<Result>(error);
    for (const one of batch.waiting) {
      if (typeof one === "object") {
        if (one.state === "settled") {
          continue;
        }
        this.#departures.leave(one);
      }
      this.#counters.failedItems += 1;
      fail(one);
    }
    this.#onRoom();
  }

  #failItem(waiting: Waiting<Result>, cause: Error): void {
    this.#counters.failedItems += 1;
    failWith<Result>(new BatcherError("run_failed", "the run gave an error for this item", { cause }))(waiting);
  }
}
