import { describe, expect, test } from "vitest";
import { rig } from "../test/batcher-rig.ts";

describe("hooks and stats", () => {
  test("a batch says why it ran, what it held and what it cost", async () => {
    const seen: unknown[] = [];
    const { clock, batcher } = rig({
      allowedBatchSizes: [1, 2, 4],
      batchTimeoutMicros: 2000,
      hooks: {
        onBatchStart: (info) => seen.push(info),
        onBatchEnd: (info, runMs, error) => seen.push([info.id, runMs, error]),
      },
    });
    void batcher.submit(1);
    await clock.advanceMs(1);
    void batcher.submit(2);
    void batcher.submit(3);
    await clock.advanceMs(11);
    expect(seen).toEqual([
      {
        id: 1,
        items: 3,
        size: 3,
        paddedSize: 4,
        flushReason: "timeout",
        startedAtMs: 2,
        oldestWaitMs: 2,
        expectedRunMs: undefined,
        inFlightBatches: 1,
        queuedItems: 0,
      },
      [1, 10, undefined],
    ]);
    const { queueDelay, ...stats } = batcher.stats();
    expect(stats).toMatchObject({
      submittedItems: 3,
      completedItems: 3,
      batchedSize: 3,
      paddedSize: 4,
      cost: { fixedMicros: 10_000, perSizeMicros: 0 },
    });
    // 2 ms are in [1024, 2048) µs, twice 1 ms in [512, 1024).
    expect(queueDelay.counts.slice(9, 13)).toEqual([0, 2, 1, 0]);
    expect(queueDelay.sumMs).toBeCloseTo(4, 9);
  });
});
