import { describe, expect, test } from "vitest";
import { outcome, rig } from "../test/batcher-rig.ts";

describe("the end", () => {
  test("drain runs what waits, refuses what comes, and resolves when the last result is out", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 1e6 });
    const results = Promise.all([1, 2, 3, 4, 5].map((item) => batcher.submit(item)));
    const drainedAtMs = batcher.drain().then(() => clock.now());
    expect(batcher.drain() === batcher.drain()).toBe(true);
    expect(await outcome(batcher.submit(6))).toBe("draining");
    await clock.advanceMs(100);
    expect(await results).toEqual(["1!", "2!", "3!", "4!", "5!"]);
    expect(ran.map(({ flushReason }) => flushReason)).toEqual(["drain", "drain"]);
    expect(await drainedAtMs).toBe(20);
  });

  test("drain of an empty batcher resolves", async () => {
    await expect(rig().batcher.drain()).resolves.toBeUndefined();
  });

  test("drain ends when what waited was cancelled", async () => {
    const { clock, batcher } = rig({ policy: "adaptive", runMs: 10 });
    const controller = new AbortController();
    void batcher.submit(1);
    await clock.settle();
    const cancelledItem = outcome(batcher.submit(2, { signal: controller.signal }));
    const drained = batcher.drain();
    controller.abort();
    await clock.advanceMs(10);
    await drained;
    expect(await cancelledItem).toBe("cancelled");
  });

  test("close rejects what waits and what runs, tells the run, leaves no timer, and refuses what comes", async () => {
    const { clock, batcher, ran } = rig({ policy: "adaptive", runMs: 10, runTimeoutMs: 1000 });
    const results = [outcome(batcher.submit(1, { deadlineMs: 500 }))];
    await clock.settle();
    results.push(outcome(batcher.submit(2, { deadlineMs: 500 })));
    const drained = batcher.drain();
    batcher.close();
    batcher.close();
    results.push(outcome(batcher.submit(3)));
    expect(await Promise.all(results)).toEqual(["closed", "closed", "closed"]);
    await drained;
    expect(ran[0]?.signal.aborted).toBe(true);
    // The one timer left is the run's own.
    expect(clock.pendingTimers).toBe(1);
    await clock.advanceMs(100);
    expect(batcher.stats()).toMatchObject({ closedItems: 2, refusedItems: 1, completedItems: 0 });
  });
});
