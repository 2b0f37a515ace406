import type { BatchSizes } from "./batch-sizes.ts";
import type { CostModel } from "./cost-model.ts";
import type { PaddingPolicy } from "./flush-policy.ts";

/** The smaller batch must be this much cheaper for each of its items: what it leaves behind waits for another run. */
const LEAVE_BEHIND = 1.05;

/**
 * How much of a waiting `size`, below `maxBatchSize`, to send: all of it, padded up, or what fills the next smaller
 * allowed size. `minimizeCost` compares size a millisecond; `idleMs`, how long there has been room, counts for both, so
 * that the smaller is taken only where the device is the bottleneck.
 */
export function sizeToFlush(
  policy: PaddingPolicy,
  sizes: BatchSizes,
  cost: CostModel,
  size: number,
  idleMs: number,
): number {
  const down = sizes.atMost(size);
  if (policy === "padUp" || down === size || down === 0) {
    return size;
  }
  if (policy === "batchDown") {
    return down;
  }
  if (!cost.known) {
    return size;
  }
  const up = size / (idleMs + cost.runMs(sizes.atLeast(size)));
  return down / (idleMs + cost.runMs(down)) > LEAVE_BEHIND * up ? down : size;
}
