import type { BatcherError } from "./batcher-error.ts";
import type { BatcherHooks, BatchInfo } from "./batcher-hooks.ts";

/** Calls the caller's hooks; what they throw is counted and dropped. */
export class HookCalls {
  readonly #hooks: BatcherHooks;
  readonly #counters: { hookErrors: number };

  constructor(hooks: BatcherHooks, counters: { hookErrors: number }) {
    this.#hooks = hooks;
    this.#counters = counters;
  }

  batchStarts(info: BatchInfo): void {
    if (this.#hooks.onBatchStart !== undefined) {
      try {
        this.#hooks.onBatchStart(info);
      } catch {
        this.#counters.hookErrors += 1;
      }
    }
  }

  batchEnds(info: BatchInfo, runMs: number, error: BatcherError | undefined): void {
    if (this.#hooks.onBatchEnd !== undefined) {
      try {
        this.#hooks.onBatchEnd(info, runMs, error);
      } catch {
        this.#counters.hookErrors += 1;
      }
    }
  }

  itemDropped(error: BatcherError): void {
    if (this.#hooks.onItemDropped !== undefined) {
      try {
        this.#hooks.onItemDropped(error);
      } catch {
        this.#counters.hookErrors += 1;
      }
    }
  }
}
