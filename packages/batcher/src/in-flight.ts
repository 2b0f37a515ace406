import type { Arrivals } from "./arrivals.ts";
import type { BatchSizes } from "./batch-sizes.ts";
import type { BatcherError } from "./batcher-error.ts";
import type { CostModel } from "./cost-model.ts";
import type { FlushPolicy } from "./flush-policy.ts";
import type { HookCalls } from "./hook-calls.ts";
import type { ResolvedOptions } from "./options.ts";
import type { RunningBatch } from "./running-batch.ts";

interface Parts<Item, Result> {
  readonly options: ResolvedOptions<Item, Result>;
  readonly sizes: BatchSizes;
  readonly cost: CostModel;
  readonly policy: FlushPolicy;
  readonly arrivals: Arrivals;
  readonly hooks: HookCalls;
}

/** The batches that run, and what is learnt when one ends. */
export class InFlight<Item, Result> {
  batches: RunningBatch<Item, Result>[] = [];
  /** Since when there has been room for another; valid iff there is. */
  roomSinceMs: number;
  readonly #parts: Parts<Item, Result>;

  constructor(parts: Parts<Item, Result>) {
    this.#parts = parts;
    this.roomSinceMs = parts.options.clock.now();
  }

  get hasRoom(): boolean {
    return this.batches.length < this.#parts.options.maxInFlightBatches;
  }

  add(batch: RunningBatch<Item, Result>): void {
    batch.place = this.batches.length;
    this.batches.push(batch);
  }

  /** Takes a batch out of flight; false if it had left before. */
  end(batch: RunningBatch<Item, Result>, error: BatcherError | undefined): boolean {
    if (batch.over) {
      return false;
    }
    const { options, cost, policy, arrivals, hooks } = this.#parts;
    batch.over = true;
    const nowMs = options.clock.now();
    const { info } = batch;
    const runMs = nowMs - info.startedAtMs;
    this.cancelTimer(batch);
    if (!this.hasRoom) {
      this.roomSinceMs = nowMs;
    }
    const last = this.batches.pop() as RunningBatch<Item, Result>;
    if (last !== batch) {
      this.batches[batch.place] = last;
      last.place = batch.place;
    }
    if (error === undefined) {
      cost.observe(info.paddedSize, runMs);
    }
    arrivals.tell();
    // Whoever is answered may submit in this very go.
    arrivals.at(nowMs);
    policy.answered(nowMs, info.items);
    hooks.batchEnds(info, runMs, error);
    return true;
  }

  /** That of `runTimeoutMs`. */
  cancelTimer({ timer }: RunningBatch<Item, Result>): void {
    if (timer !== undefined) {
      this.#parts.options.clock.cancel(timer);
    }
  }

  /** Until the next batch leaves the queue, about, with so much in it. */
  retryAfterMs(queuedSize: number): number {
    const { options, cost, sizes } = this.#parts;
    const { maxBatchSize, maxInFlightBatches } = options;
    const runMs = cost.runMs(sizes.atLeast(Math.min(queuedSize, maxBatchSize)));
    return Math.max(1, Math.ceil(runMs / Math.min(maxInFlightBatches, this.batches.length || 1)));
  }
}
