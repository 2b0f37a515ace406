import type { BatchSizes } from "./batch-sizes.ts";
import type { CostModel } from "./cost-model.ts";
import type { FlushDecision, FlushPolicy, PaddingPolicy, QueueView } from "./flush-policy.ts";
import { sizeToFlush } from "./padding.ts";

/** Policy `window`: a full batch at once, any other `batchTimeoutMicros` after its oldest item came. */
export class WindowPolicy implements FlushPolicy {
  readonly #cost: CostModel;
  readonly #maxBatchSize: number;
  readonly #sizes: BatchSizes;
  readonly #padding: PaddingPolicy;
  readonly #timeoutMs: number;

  constructor(cost: CostModel, maxBatchSize: number, sizes: BatchSizes, padding: PaddingPolicy, timeoutMs: number) {
    this.#cost = cost;
    this.#maxBatchSize = maxBatchSize;
    this.#sizes = sizes;
    this.#padding = padding;
    this.#timeoutMs = timeoutMs;
  }

  decide({ nowMs, size, oldestArrivalMs, roomSinceMs }: QueueView): FlushDecision {
    if (size >= this.#maxBatchSize) {
      return { flush: true, reason: "full", maxItems: Infinity, maxSize: this.#maxBatchSize };
    }
    const untilMs = oldestArrivalMs + this.#timeoutMs;
    if (nowMs >= untilMs) {
      const maxSize = sizeToFlush(this.#padding, this.#sizes, this.#cost, size, nowMs - roomSinceMs);
      return { flush: true, reason: "timeout", maxItems: Infinity, maxSize };
    }
    const runMs = this.#cost.known ? this.#cost.runMs(this.#sizes.atLeast(size)) : 0;
    return { flush: false, untilMs, untilItems: Infinity, untilSize: this.#maxBatchSize, runMs };
  }

  arrived(): void {}
  answered(): void {}
}
