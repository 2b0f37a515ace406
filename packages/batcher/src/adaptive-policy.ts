import type { BatchSizes } from "./batch-sizes.ts";
import type { CostModel } from "./cost-model.ts";
import type { FlushDecision, FlushPolicy, PaddingPolicy, QueueView } from "./flush-policy.ts";
import { sizeToFlush } from "./padding.ts";
import { ReturnModel } from "./return-model.ts";

/** A batch is large enough when its fixed cost is no more than this share of it: more only delays. */
const FIXED_SHARE = 0.02;
/** Of waits whose throughput is this close to the best the one that leaves fewest callers behind is taken. */
const TOLERANCE = 0.985;
/** A wait must promise this much more throughput than letting two groups of callers take turns. */
const WORTH = 1.02;
/** How much of the mean item size is forgotten with each new one. */
const SIZE_FADE = 1 / 64;

/**
 * Policy `adaptive`: flush as soon as there is room, unless the callers that are known to come back presently are worth
 * a wait.
 *
 * With n waiting now and r(w) more expected within a wait w, a batch sent after w brings
 * (n + r) / (idle + w + run(n + r)) items a millisecond, `idle` being how long there has been room. The w with the
 * best rate is taken, if that is better than sending n at once and the others as the next batch, by turns,
 * (n + r) / (run(n) + run(r)). No wait is longer than a batch's fixed cost, which is all that it can save.
 */
export class AdaptivePolicy implements FlushPolicy {
  readonly #cost: CostModel;
  readonly #returns = new ReturnModel();
  readonly #maxBatchSize: number;
  readonly #sizes: BatchSizes;
  readonly #padding: PaddingPolicy;
  readonly #latencyBudgetMs: number;
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
  }

  decide(view: QueueView): FlushDecision {
    const { nowMs, size } = view;
    const enough = this.#enoughSize();
    if (size >= enough) {
      this.#waitUntilMs = undefined;
      return { flush: true, reason: "full", maxItems: Infinity, maxSize: enough };
    }
    const wait = this.#bestWait(view, enough);
    if (wait !== undefined) {
      this.#waitUntilMs = wait.untilMs;
      return wait;
    }
    const reason = this.#waitUntilMs !== undefined && nowMs >= this.#waitUntilMs ? "timeout" : "idle";
    this.#waitUntilMs = undefined;
    const maxSize = sizeToFlush(this.#padding, this.#sizes, this.#cost, size, nowMs - view.roomSinceMs);
    return { flush: true, reason, maxItems: Infinity, maxSize };
  }

  arrived(nowMs: number, size: number): void {
    this.#meanSize += (size - this.#meanSize) * SIZE_FADE;
    this.#returns.arrived(nowMs);
  }

  answered(nowMs: number, items: number): void {
    this.#returns.answered(nowMs, items);
  }

  /** The size from which the fixed cost no longer matters. */
  #enoughSize(): number {
    const { fixedMs, perSizeMs } = this.#cost;
    const size = (fixedMs / perSizeMs) * (1 / FIXED_SHARE - 1);
    return size < this.#maxBatchSize ? this.#sizes.atLeast(Math.max(1, Math.ceil(size))) : this.#maxBatchSize;
  }

  #bestWait(view: QueueView, enough: number): (FlushDecision & { readonly flush: false }) | undefined {
    const { nowMs, items, size, oldestArrivalMs, roomSinceMs } = view;
    const { fixedMs } = this.#cost;
    const sinceMs = Math.max(roomSinceMs, oldestArrivalMs);
    const latestMs = Math.min(sinceMs + fixedMs, oldestArrivalMs + this.#latencyBudgetMs - this.#runMs(enough, size));
    if (!(latestMs > nowMs)) {
      return undefined;
    }
    const all = this.#returns.expected(nowMs, latestMs);
    if (all < 0.01) {
      return undefined;
    }
    const idleMs = nowMs - roomSinceMs;
    const nowRunMs = this.#runMs(enough, size);
    const nowRate = size / (idleMs + nowRunMs);
    const allSize = all * this.#meanSize;
    const byTurns = (size + allSize) / (nowRunMs + this.#runMs(enough, allSize));

    let bestRate = nowRate;
    const candidates: { untilMs: number; more: number; rate: number; runMs: number }[] = [];
    for (const untilMs of this.#returns.moments(nowMs, latestMs)) {
      const more = this.#returns.expected(nowMs, untilMs);
      const together = Math.min(size + more * this.#meanSize, enough);
      const runMs = this.#runMs(enough, together);
      const rate = together / (untilMs - roomSinceMs + runMs);
      candidates.push({ untilMs, more, rate, runMs });
      bestRate = Math.max(bestRate, rate);
    }
    const best = candidates.findLast(({ rate }) => rate >= bestRate * TOLERANCE);
    if (best === undefined || best.rate < byTurns * WORTH) {
      return undefined;
    }
    return {
      flush: false,
      untilMs: best.untilMs,
      untilItems: items + Math.max(1, Math.round(all)),
      untilSize: enough,
      runMs: best.runMs,
    };
  }

  #runMs(enough: number, size: number): number {
    return this.#cost.runMs(this.#sizes.atLeast(Math.max(1, Math.min(size, enough))));
  }
}
