import type { Enqueued } from "../batcher.ts";
import { Batcher } from "../batcher.ts";
import type { BatcherStats } from "../batcher-stats.ts";
import type { OnSettled } from "../entry.ts";
import type { FlushDecision, FlushPolicy } from "../flush-policy.ts";
import type { BatcherOptions } from "../options.ts";
import type { SubmitOptions } from "../submit-options.ts";
import { FakeClock } from "./fake-clock.ts";

const NEVER: FlushPolicy = {
  decide: (): FlushDecision => ({
    flush: false,
    untilMs: Infinity,
    untilItems: Infinity,
    untilSize: Infinity,
    runMs: -Infinity,
  }),
  arrived() {},
  answered() {},
};

/**
 * A batcher for tests of code that submits items: no batch of its own accord. Items wait until the test says
 * `runItems()`; sizes, limits, priorities, cancellation and errors are those of `Batcher`. Deadlines count on `clock`,
 * which stands still until the test moves it.
 */
export class PuppetBatcher<Item, Result> {
  readonly clock: FakeClock = new FakeClock();
  readonly #batcher: Batcher<Item, Result>;

  constructor(options: Omit<BatcherOptions<Item, Result>, "clock" | "policy" | "batchTimeoutMicros">) {
    // Nothing is collected but what waits when `runItems` is called.
    this.#batcher = new Batcher<Item, Result>({ ...options, clock: this.clock, policy: NEVER, collectUntil: "tick" });
  }

  submit(item: Item, options?: SubmitOptions): Promise<Result> {
    return this.#batcher.submit(item, options);
  }

  enqueue(item: Item, onSettled: OnSettled<Result>, options?: SubmitOptions): Enqueued {
    return this.#batcher.enqueue(item, onSettled, options);
  }

  cancel(enqueued: Enqueued, reason?: unknown): boolean {
    return this.#batcher.cancel(enqueued, reason);
  }

  hasRoom(size?: number): boolean {
    return this.#batcher.hasRoom(size);
  }

  /** Runs what waits, the first `maxItems` items at most, and lets promises settle. Returns how many items that took. */
  async runItems(maxItems?: number): Promise<number> {
    const { queuedItems } = this.#batcher.stats();
    if (queuedItems === 0) {
      return 0;
    }
    this.#batcher.flush(maxItems);
    await this.clock.settle();
    return queuedItems - this.#batcher.stats().queuedItems;
  }

  drain(): Promise<void> {
    return this.#batcher.drain();
  }

  close(): void {
    this.#batcher.close();
  }

  stats(): BatcherStats {
    return this.#batcher.stats();
  }
}
