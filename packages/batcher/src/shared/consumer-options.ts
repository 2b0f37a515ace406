import { AdaptivePolicy } from "../adaptive-policy.ts";
import type { BatchSizes } from "../batch-sizes.ts";
import { BatcherError } from "../batcher-error.ts";
import type { BatcherHooks } from "../batcher-hooks.ts";
import { CheckedPolicy } from "../checked-policy.ts";
import type { CostModel } from "../cost-model.ts";
import type { FlushPolicy } from "../flush-policy.ts";
import { OffPolicy } from "../flush-policy.ts";
import type { BatchingPolicy } from "../options.ts";
import { refuseUnknown } from "../unknown-options.ts";
import { WindowPolicy } from "../window-policy.ts";
import type { SharedRing } from "./ring-memory.ts";

export interface RingConsumerOptions {
  /** As of `Batcher`. `off` is for rings that are made with `itemsAlone`, and the only one for them. Default: that, or `adaptive`. */
  readonly policy?: BatchingPolicy | FlushPolicy;
  /** Policy `window`: microseconds from the arrival of the oldest item. Default 1000. */
  readonly batchTimeoutMicros?: number;
  /** Policy `adaptive`: see `Batcher`. */
  readonly latencyBudgetMs?: number;
  /**
   * Sizes that batches are padded to, rising; the last must hold a batch of the ring's `maxBatchSize`, and there must be rows
   * for it: `maxBatchSize + paddingRows`. Default: no padding.
   */
  readonly allowedBatchSizes?: readonly number[];
  /** `serve`: batches that may run at a time, each published when its own run ends; at most the ring's `slots`. Default 1. */
  readonly maxInFlightBatches?: number;
  /**
   * `serve`: a run that has not settled after this many milliseconds fails with `run_timeout`, and its signal is aborted. As
   * it may still write, its slot gets other memory, one of the ring's `spareSlots`, of which there must be one at least; while all
   * of these are with such runs, the slot waits for the run. Default: no limit.
   */
  readonly runTimeoutMs?: number;
  /**
   * `serveBlocking`: where items tend to come that soon, the thread looks for them up to so many microseconds before it
   * sleeps. 0: it never does. Default 20, about what a wake costs.
   */
  readonly spinMicros?: number;
  readonly hooks?: Pick<BatcherHooks, "onBatchStart" | "onBatchEnd">;
}

const OPTION_NAMES = Object.keys({
  policy: true,
  batchTimeoutMicros: true,
  latencyBudgetMs: true,
  allowedBatchSizes: true,
  maxInFlightBatches: true,
  runTimeoutMs: true,
  spinMicros: true,
  hooks: true,
} satisfies Record<keyof RingConsumerOptions, true>);

/** Throws `invalid_options` if there is a name among them that is none. */
export function checkNames(options: RingConsumerOptions): void {
  refuseUnknown(options, OPTION_NAMES);
}

/** `maxInFlightBatches` and `runTimeoutMs`. Throws `invalid_options` if they are none for this ring. */
export function runLimits(
  { maxInFlightBatches = 1, runTimeoutMs = Infinity }: RingConsumerOptions,
  { slots, spareSlots }: SharedRing,
): { readonly maxInFlightBatches: number; readonly runTimeoutMs: number } {
  if (!Number.isInteger(maxInFlightBatches) || maxInFlightBatches < 1 || maxInFlightBatches > slots) {
    throw new BatcherError(
      "invalid_options",
      `maxInFlightBatches: expected a whole number from 1 to slots (${slots}), received ${String(maxInFlightBatches)}`,
    );
  }
  if (typeof runTimeoutMs !== "number" || !(runTimeoutMs > 0)) {
    const message = `runTimeoutMs: expected more than 0 milliseconds, received ${String(runTimeoutMs)}`;
    throw new BatcherError("invalid_options", message);
  }
  if (runTimeoutMs < Infinity && spareSlots === 0) {
    throw new BatcherError("invalid_options", "runTimeoutMs: expected a ring made with spareSlots from 1, received 0");
  }
  return { maxInFlightBatches, runTimeoutMs };
}

/** Throws `invalid_options` if there is no room for these sizes, or for batches of the largest. */
export function checkSizes(sizes: readonly number[] | undefined, { maxBatchSize, paddingRows }: SharedRing): void {
  if (sizes === undefined) {
    return;
  }
  const rising = sizes.every((size, i) => Number.isInteger(size) && size > (sizes[i - 1] ?? 0));
  const last = sizes.at(-1) ?? 0;
  if (!rising || last < maxBatchSize || last > maxBatchSize + paddingRows) {
    const end =
      paddingRows === 0
        ? `maxBatchSize (${maxBatchSize})`
        : `one from maxBatchSize (${maxBatchSize}) to maxBatchSize + paddingRows (${maxBatchSize + paddingRows})`;
    throw new BatcherError(
      "invalid_options",
      `allowedBatchSizes: expected rising whole numbers that end with ${end}, received [${sizes.join(", ")}]`,
    );
  }
}

/** The policy that the options name, or that of the caller. */
export function makeRingPolicy(
  options: RingConsumerOptions,
  { itemsAlone, maxBatchSize }: SharedRing,
  cost: CostModel,
  sizes: BatchSizes,
): FlushPolicy {
  const { policy = itemsAlone ? "off" : "adaptive", batchTimeoutMicros = 1000, latencyBudgetMs = Infinity } = options;
  if ((policy === "off") !== itemsAlone) {
    const expected = itemsAlone
      ? "off, as the ring is made with itemsAlone"
      : "window, adaptive or a FlushPolicy, as the ring is made without itemsAlone";
    const received = typeof policy === "string" ? policy : "a policy of your own";
    throw new BatcherError("invalid_options", `policy: expected ${expected}, received ${received}`);
  }
  // A batch is a stretch of its slot's rows, so all of it runs: padded up, whatever that costs.
  switch (policy) {
    case "off":
      return new OffPolicy();
    case "window":
      return new WindowPolicy(cost, maxBatchSize, sizes, "padUp", batchTimeoutMicros / 1000);
    case "adaptive":
      return new AdaptivePolicy(cost, maxBatchSize, sizes, "padUp", latencyBudgetMs);
    default:
      return new CheckedPolicy(policy, maxBatchSize);
  }
}
