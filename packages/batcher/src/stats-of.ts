import type { BatcherStats, Counters } from "./batcher-stats.ts";
import type { CostModel } from "./cost-model.ts";

interface Present {
  readonly counters: Counters;
  readonly queue: { readonly items: number; readonly size: number; oldestArrivalMs(): number };
  readonly inFlightBatches: number;
  readonly cost: CostModel;
  readonly nowMs: number;
}

/** Counts so far and the present state, as a copy. */
export function statsOf({ counters, queue, inFlightBatches, cost, nowMs }: Present): BatcherStats {
  const { batches, refusedByCode, delayCounts, delaySumMs, ...counts } = counters;
  return {
    ...counts,
    refusedByCode: { ...refusedByCode },
    batches: { ...batches },
    queuedItems: queue.items,
    queuedSize: queue.size,
    oldestWaitMs: Math.max(0, nowMs - Math.min(nowMs, queue.oldestArrivalMs())),
    inFlightBatches,
    queueDelay: { counts: [...delayCounts], sumMs: delaySumMs },
    cost: cost.known ? { fixedMicros: cost.fixedMs * 1000, perSizeMicros: cost.perSizeMs * 1000 } : undefined,
  };
}
