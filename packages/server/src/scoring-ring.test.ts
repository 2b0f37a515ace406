import { slotViews } from "@dlrm/batcher/shared";
import { expect, test } from "vitest";
import { createScoringRing, type ScoringRing } from "./scoring-ring.ts";

const PAGE_BYTES = 4096;

/** Four slots, and four pages of pooled vectors a row. */
function ringOf(maxBatchSize: number, itemsAlone = false): ScoringRing {
  return createScoringRing({
    denseFeatures: 1,
    pooledWidth: 4096,
    maxBatchSize,
    largestBucket: maxBatchSize,
    itemsAlone,
    maxInFlightBatches: 1,
  });
}

function grownBytes(make: () => unknown): number {
  const before = process.memoryUsage.rss();
  const made = make();
  const grown = process.memoryUsage.rss() - before;
  return made === undefined ? Number.NaN : grown;
}

test("the first requests find the memory of all slots of a ring there, also when some hundred wait", () => {
  const ring = ringOf(512);
  const views = slotViews(ring);
  expect(views.length).toBe(4);
  const faultsBefore = process.resourceUsage().minorPageFault;
  for (const { inputs, outputs } of views) {
    inputs.dense.fill(1);
    inputs.pooled.fill(1);
    outputs.scores.fill(1);
  }
  // 8192 pages of 4 KiB, were they not there.
  expect(process.resourceUsage().minorPageFault - faultsBefore).toBeLessThan(1024);
});

test("a ring of large batches has no more memory from the start than the slots of one thread", () => {
  // Two slots of 1,024 rows; all rows of the ring are a quarter of a gigabyte.
  expect(grownBytes(() => ringOf(4096))).toBeLessThan(1.25 * 2 * 1024 * 4 * PAGE_BYTES);
});

test("of a ring of requests that run alone only what they reach has memory", () => {
  expect(grownBytes(() => ringOf(512, true))).toBeLessThan(4 * 1024 * 1024);
});
