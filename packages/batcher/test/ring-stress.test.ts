import { expect, test } from "vitest";
import { stressRing } from "./ring-stress.ts";

test.each([
  { name: "small batches, a small ring", maxBatchSize: 4, maxSize: 4, slots: 2, outstanding: 20 },
  { name: "large batches", maxBatchSize: 256, maxSize: 40, slots: 4, outstanding: 60 },
  {
    name: "several batches at a time",
    maxBatchSize: 16,
    maxSize: 8,
    slots: 8,
    outstanding: 60,
    maxInFlightBatches: 3,
  },
])(
  "three producer threads and a consumer thread, $name: each item is answered once, with its own result",
  async (shape) => {
    const items = 30_000;
    const { producers, consumer } = await stressRing({
      ...shape,
      producers: 3,
      items,
      cancelShare: 0.05,
      expireShare: 0.05,
      seed: 7,
    });
    for (const { wrong, settled, outcomes, stats } of producers) {
      expect(wrong).toBe(0);
      expect(settled).toBe(items / 3);
      const { ok = 0, cancelled = 0, deadline_exceeded: expired = 0, ...others } = outcomes;
      expect(others).toEqual({});
      expect(ok + cancelled + expired).toBe(items / 3);
      expect(ok).toBeGreaterThan(items / 6);
      expect(cancelled).toBeGreaterThan(0);
      expect(stats).toMatchObject({ completedItems: ok, waitingItems: 0, itemsInRing: 0 });
    }
    expect(consumer.stats.failedBatches).toBe(0);
    // What was taken out before its batch ran may or may not have been run with it.
    const ok = producers.reduce((sum, { outcomes }) => sum + (outcomes.ok ?? 0), 0);
    expect(consumer.stats.batchedItems).toBeGreaterThanOrEqual(ok);
    expect(consumer.stats.batchedItems).toBeLessThanOrEqual(items);
  },
);
