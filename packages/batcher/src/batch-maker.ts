import type { BatchSizes } from "./batch-sizes.ts";
import type { Counters } from "./batcher-stats.ts";
import type { CostModel } from "./cost-model.ts";
import type { Departures } from "./departures.ts";
import type { EntryQueue } from "./entry-queue.ts";
import type { FlushReason } from "./flush-policy.ts";
import type { HookCalls } from "./hook-calls.ts";
import type { InFlight } from "./in-flight.ts";
import { RunningBatch } from "./running-batch.ts";
import { countDelays, takeOneByOne } from "./take-batch.ts";

interface Parts<Item, Result> {
  readonly queue: EntryQueue<Item, Result>;
  readonly departures: Departures<Item, Result>;
  readonly inFlight: InFlight<Item, Result>;
  readonly sizes: BatchSizes;
  readonly cost: CostModel;
  readonly counters: Counters;
  readonly hooks: HookCalls;
}

/** Makes batches of what waits. */
export class BatchMaker<Item, Result> {
  readonly #parts: Parts<Item, Result>;
  #batches = 0;

  constructor(parts: Parts<Item, Result>) {
    this.#parts = parts;
  }

  /** One batch, within these bounds, that is in flight from then on; undefined if nothing waits. */
  make(reason: FlushReason, maxItems: number, maxSize: number, nowMs: number): RunningBatch<Item, Result> | undefined {
    const { queue, departures, inFlight, sizes, cost, counters, hooks } = this.#parts;
    const oldestArrivalMs = queue.oldestArrivalMs();
    const taken =
      queue.takePlain(Math.min(maxItems, maxSize)) ?? takeOneByOne(queue, maxItems, maxSize, nowMs, departures);
    const { waiting, size } = taken;
    if (waiting.length === 0) {
      return undefined;
    }
    countDelays(taken, nowMs, counters);
    const paddedSize = sizes.atLeast(size);
    this.#batches += 1;
    const batch = new RunningBatch<Item, Result>(taken, {
      id: this.#batches,
      items: waiting.length,
      size,
      paddedSize,
      flushReason: reason,
      startedAtMs: nowMs,
      oldestWaitMs: nowMs - oldestArrivalMs,
      expectedRunMs: cost.known ? cost.runMs(paddedSize) : undefined,
      inFlightBatches: inFlight.batches.length + 1,
      queuedItems: queue.items,
    });
    for (const one of waiting) {
      if (typeof one === "object") {
        one.batch = batch;
      }
    }
    inFlight.add(batch);
    counters.batches[reason] += 1;
    counters.batchedSize += size;
    counters.paddedSize += paddedSize;
    hooks.batchStarts(batch.info);
    return batch;
  }
}
