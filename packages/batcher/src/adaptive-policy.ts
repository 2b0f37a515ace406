import type { BatchSizes } from "./batch-sizes.ts";
import type { CostModel } from "./cost-model.ts";
import type { FlushDecision, FlushPolicy, PaddingPolicy, QueueView } from "./flush-policy.ts";
import { sizeToFlush } from "./padding.ts";
import { ReturnModel } from "./return-model.ts";
import { SizeTrials } from "./size-trials.ts";

/** A batch is large enough when its fixed cost is no more than this share of it: more only delays. */
const FIXED_SHARE = 0.02;
/** The time that a wait costs those that wait counts this many times. */
const CAUTION = 2;
/** A wait must promise this much more throughput than letting two groups of callers take turns. */
const WORTH = 1.02;
/** How much of the mean item size is forgotten with each new one. */
const SIZE_FADE = 1 / 64;

/**
 * Policy `adaptive`: flush as soon as there is room, unless the callers that are known to come back presently are worth
 * a wait.
 *
 * With n items waiting, of which a batch runs t, each of the r(w) expected within a wait w would, if it missed this
 * batch, wait t - w longer, and each of the n waits w for it. The w with the largest r(w) * (t - w) - 2 * n * w is taken,
 * if that is above 0, and if the batch that it makes brings more items a millisecond, from when there was room, than to
 * send n at once and the others as the batch after. So no wait is longer than t, and arrivals that come at a steady rate,
 * with n about the number that come within t, are not waited for.
 */
export class AdaptivePolicy implements FlushPolicy {
  readonly #cost: CostModel;
  readonly #returns = new ReturnModel();
  readonly #maxBatchSize: number;
  readonly #sizes: BatchSizes;
  readonly #padding: PaddingPolicy;
  readonly #latencyBudgetMs: number;
  readonly #trials: SizeTrials;
  #meanSize = 1;
  /** When the wait that goes on ends; valid iff the last decision was to wait. */
  #waitUntilMs: number | undefined;

  constructor(
    cost: CostModel,
    maxBatchSize: number,
    sizes: BatchSizes,
    padding: PaddingPolicy,
    latencyBudgetMs: number,
  ) {
    this.#cost = cost;
    this.#maxBatchSize = maxBatchSize;
    this.#sizes = sizes;
    this.#padding = padding;
    this.#latencyBudgetMs = latencyBudgetMs;
    this.#trials = new SizeTrials(cost, sizes, maxBatchSize);
  }

  decide(view: QueueView): FlushDecision {
    const { nowMs, size } = view;
    const enough = this.#enoughSize();
    if (size >= enough) {
      this.#waitUntilMs = undefined;
      return { flush: true, reason: "full", maxItems: Infinity, maxSize: this.#tried(enough, size) };
    }
    const wait = this.#bestWait(view, enough);
    if (wait !== undefined) {
      this.#waitUntilMs = wait.untilMs;
      return wait;
    }
    const reason = this.#waitUntilMs !== undefined && nowMs >= this.#waitUntilMs ? "timeout" : "idle";
    this.#waitUntilMs = undefined;
    const maxSize = sizeToFlush(this.#padding, this.#sizes, this.#cost, size, nowMs - view.roomSinceMs);
    return { flush: true, reason, maxItems: Infinity, maxSize: this.#tried(maxSize, size) };
  }

  arrived(nowMs: number, items: number, size: number): void {
    this.#meanSize += (size / items - this.#meanSize) * Math.min(1, items * SIZE_FADE);
    this.#returns.arrived(nowMs, items);
  }

  answered(nowMs: number, items: number): void {
    this.#returns.answered(nowMs, items);
  }

  #tried(usual: number, size: number): number {
    return this.#trials.sizeOf(usual, size, this.#meanSize);
  }

  /** The size from which the fixed cost no longer matters, or beyond which each item costs more again. */
  #enoughSize(): number {
    const { fixedMs, perSizeMs, isSteep, cheapestSize } = this.#cost;
    const size = isSteep ? cheapestSize : (fixedMs / perSizeMs) * (1 / FIXED_SHARE - 1);
    if (!(size < this.#maxBatchSize)) {
      return this.#maxBatchSize;
    }
    // The last allowed size of a ring may be above its largest batch.
    return Math.min(this.#maxBatchSize, this.#sizes.atLeast(Math.max(1, Math.ceil(size))));
  }

  #bestWait(view: QueueView, enough: number): (FlushDecision & { readonly flush: false }) | undefined {
    const { nowMs, items, size, oldestArrivalMs, roomSinceMs } = view;
    const runMs = this.#runMs(enough, size);
    const latestMs = Math.min(
      Math.max(roomSinceMs, oldestArrivalMs) + runMs,
      oldestArrivalMs + this.#latencyBudgetMs - runMs,
    );
    if (!(latestMs > nowMs)) {
      return undefined;
    }
    const all = this.#returns.expected(nowMs, latestMs);
    if (all < 0.01) {
      return undefined;
    }
    let best: { untilMs: number; more: number; runMs: number } | undefined;
    let bestGain = 0;
    for (const untilMs of this.#returns.moments(nowMs, latestMs)) {
      const waitMs = untilMs - nowMs;
      const more = this.#returns.expected(nowMs, untilMs);
      const gain = more * (runMs - waitMs) - CAUTION * items * waitMs;
      if (gain > bestGain) {
        bestGain = gain;
        best = { untilMs, more, runMs: this.#runMs(enough, size + more * this.#meanSize) };
      }
    }
    if (best === undefined) {
      return undefined;
    }
    const together = Math.min(size + best.more * this.#meanSize, enough);
    const allSize = all * this.#meanSize;
    const byTurns = (size + allSize) / (runMs + this.#runMs(enough, allSize));
    if (together / (best.untilMs - roomSinceMs + best.runMs) < byTurns * WORTH) {
      return undefined;
    }
    return {
      flush: false,
      untilMs: best.untilMs,
      untilItems: items + Math.max(1, Math.ceil(best.more - 0.01)),
      untilSize: enough,
      runMs: best.runMs,
    };
  }

  #runMs(enough: number, size: number): number {
    return this.#cost.runMs(this.#sizes.atLeast(Math.max(1, Math.round(Math.min(size, enough)))));
  }
}
