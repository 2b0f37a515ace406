import type { BatcherError } from "../batcher-error.ts";
import type { BatcherHooks, BatchInfo } from "../batcher-hooks.ts";
import { Counters } from "../batcher-stats.ts";
import type { CostModel } from "../cost-model.ts";
import type { FlushReason } from "../flush-policy.ts";
import type { RingSchema } from "./ring-memory.ts";
import type { SlotBatch } from "./slot-batch.ts";

export interface RingConsumerStats {
  readonly batches: Readonly<Record<FlushReason, number>>;
  readonly failedBatches: number;
  /** Batches that were not run, as all their callers had left. */
  readonly abandonedBatches: number;
  readonly batchedItems: number;
  readonly batchedSize: number;
  readonly paddedSize: number;
  readonly hookErrors: number;
  readonly queueDelay: { readonly counts: readonly number[]; readonly sumMs: number };
  readonly inFlightBatches: number;
  readonly cost: { readonly fixedMicros: number; readonly perSizeMicros: number } | undefined;
}

/** What a ring's consumer counts, and whom it tells. */
export class ConsumerStats<Schema extends RingSchema> {
  readonly #cost: CostModel;
  readonly #hooks: Pick<BatcherHooks, "onBatchStart" | "onBatchEnd">;
  readonly #counters = new Counters();
  #abandonedBatches = 0;
  #batchedItems = 0;
  #batches = 0;
  inFlightBatches = 0;

  constructor(cost: CostModel, hooks: Pick<BatcherHooks, "onBatchStart" | "onBatchEnd"> = {}) {
    this.#cost = cost;
    this.#hooks = hooks;
  }

  /** An item waited so long. */
  delayed(delayMs: number): void {
    this.#counters.delayed(delayMs, 1);
  }

  abandoned(): void {
    this.#abandonedBatches += 1;
  }

  /** A batch begins to run, and has an id from now on. */
  started(batch: SlotBatch<Schema>): void {
    this.#batches += 1;
    batch.id = this.#batches;
    this.inFlightBatches += 1;
    this.#batchedItems += batch.items;
    this.#counters.batches[batch.flushReason] += 1;
    this.#counters.batchedSize += batch.size;
    this.#counters.paddedSize += batch.paddedSize;
    if (this.#hooks.onBatchStart !== undefined) {
      this.#hook(() => this.#hooks.onBatchStart?.(this.#info(batch)));
    }
  }

  ended(batch: SlotBatch<Schema>, runMs: number, error: BatcherError | undefined): void {
    if (error !== undefined) {
      this.#counters.failedBatches += 1;
    }
    if (this.#hooks.onBatchEnd !== undefined) {
      this.#hook(() => this.#hooks.onBatchEnd?.(this.#info(batch), runMs, error));
    }
    this.inFlightBatches -= 1;
  }

  snapshot(): RingConsumerStats {
    const { batches, failedBatches, batchedSize, paddedSize, hookErrors, delayCounts, delaySumMs } = this.#counters;
    return {
      batches: { ...batches },
      failedBatches,
      abandonedBatches: this.#abandonedBatches,
      batchedItems: this.#batchedItems,
      batchedSize,
      paddedSize,
      hookErrors,
      queueDelay: { counts: [...delayCounts], sumMs: delaySumMs },
      inFlightBatches: this.inFlightBatches,
      cost: this.#cost.known
        ? { fixedMicros: this.#cost.fixedMs * 1000, perSizeMicros: this.#cost.perSizeMs * 1000 }
        : undefined,
    };
  }

  #info({ id, items, size, paddedSize, flushReason, startedMs, firstArrivalMs }: SlotBatch<Schema>): BatchInfo {
    return {
      id,
      items,
      size,
      paddedSize,
      flushReason,
      startedAtMs: startedMs,
      oldestWaitMs: startedMs - firstArrivalMs,
      expectedRunMs: this.#cost.known ? this.#cost.runMs(paddedSize) : undefined,
      inFlightBatches: this.inFlightBatches,
      queuedItems: 0,
    };
  }

  #hook(call: () => void): void {
    try {
      call();
    } catch {
      this.#counters.hookErrors += 1;
    }
  }
}
