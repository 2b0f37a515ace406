import { AdaptivePolicy } from "./adaptive-policy.ts";
import type { BatchSizes } from "./batch-sizes.ts";
import { CheckedPolicy } from "./checked-policy.ts";
import type { CostModel } from "./cost-model.ts";
import type { FlushPolicy } from "./flush-policy.ts";
import { OffPolicy } from "./flush-policy.ts";
import type { ResolvedOptions } from "./options.ts";
import { WindowPolicy } from "./window-policy.ts";

/** The policy that the options name, or that of the caller. */
export function makePolicy<Item, Result>(
  options: ResolvedOptions<Item, Result>,
  cost: CostModel,
  sizes: BatchSizes,
): FlushPolicy {
  const { policy, maxBatchSize, paddingPolicy, batchTimeoutMicros, latencyBudgetMs } = options;
  switch (policy) {
    case "off":
      return new OffPolicy();
    case "window":
      return new WindowPolicy(cost, maxBatchSize, sizes, paddingPolicy, batchTimeoutMicros / 1000);
    case "adaptive":
      return new AdaptivePolicy(cost, maxBatchSize, sizes, paddingPolicy, latencyBudgetMs);
    default:
      return new CheckedPolicy(policy, maxBatchSize);
  }
}
