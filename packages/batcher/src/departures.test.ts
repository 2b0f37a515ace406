import { describe, expect, test } from "vitest";
import { failure, outcome, rig } from "../test/batcher-rig.ts";

describe("cancellation", () => {
  test("a cancelled item leaves the queue, is not run, and carries the signal's reason", async () => {
    const { clock, batcher, ran } = rig();
    const controller = new AbortController();
    const gone = failure(batcher.submit(1, { signal: controller.signal }));
    const stays = batcher.submit(2);
    controller.abort("left");
    expect(batcher.stats()).toMatchObject({ queuedItems: 1, queuedSize: 1, cancelledBeforeRunItems: 1 });
    await clock.advanceMs(20);
    expect(await gone).toMatchObject({ code: "cancelled", cause: "left" });
    expect(await stays).toBe("2!");
    expect(ran.map(({ items }) => items)).toEqual([[2]]);
  });

  test("one that is cancelled between two without options leaves them as they are", async () => {
    const { clock, batcher, ran } = rig();
    const controller = new AbortController();
    const results = [batcher.submit(1), outcome(batcher.submit(2, { signal: controller.signal })), batcher.submit(3)];
    // So that the third is in the queue, too.
    expect(batcher.stats().queuedItems).toBe(3);
    controller.abort();
    await clock.advanceMs(20);
    expect(await Promise.all(results)).toEqual(["1!", "cancelled", "3!"]);
    expect(ran.map(({ items }) => items)).toEqual([[1, 3]]);
  });

  test("an item that was cancelled before it came is refused", async () => {
    const { batcher } = rig();
    expect(await outcome(batcher.submit(1, { signal: AbortSignal.abort() }))).toBe("cancelled");
    expect(batcher.stats()).toMatchObject({ refusedItems: 1, refusedByCode: { cancelled: 1 } });
  });

  test("a run whose last caller has left is told so, and its result is dropped", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 0 });
    const first = new AbortController();
    const second = new AbortController();
    const results = [first, second].map((controller, i) => outcome(batcher.submit(i, { signal: controller.signal })));
    await clock.settle();
    first.abort();
    expect(ran[0]?.signal.aborted).toBe(false);
    second.abort();
    expect(ran[0]?.signal.aborted).toBe(true);
    expect(await Promise.all(results)).toEqual(["cancelled", "cancelled"]);
    await clock.advanceMs(10);
    expect(batcher.stats()).toMatchObject({ cancelledInRunItems: 2, completedItems: 0, inFlightBatches: 0 });
  });

  test("no listener stays on a signal that outlives its items", async () => {
    const { clock, batcher } = rig({ batchTimeoutMicros: 0 });
    const { signal } = new AbortController();
    let listeners = 0;
    const counted = new Proxy(signal, {
      get(target, name) {
        if (name === "addEventListener" || name === "removeEventListener") {
          return () => {
            listeners += name === "addEventListener" ? 1 : -1;
          };
        }
        return Reflect.get(target, name, target) as unknown;
      },
    });
    const result = batcher.submit(1, { signal: counted });
    expect(listeners).toBe(1);
    await clock.advanceMs(10);
    await result;
    expect(listeners).toBe(0);
  });
});

describe("deadlines", () => {
  test("a waiting item expires at its time while a batch runs, and is not run", async () => {
    const { clock, batcher, ran } = rig({ policy: "adaptive", runMs: 1000 });
    void batcher.submit(1);
    await clock.settle();
    let expiredAtMs = NaN;
    const expired = failure(batcher.submit(2, { deadlineMs: 30 })).then((error) => {
      expiredAtMs = clock.now();
      return error;
    });
    await clock.advanceMs(1000);
    expect(await expired).toMatchObject({
      code: "deadline_exceeded",
      message: "the deadline of 30 ms passed while waiting",
    });
    expect(expiredAtMs).toBe(30);
    await clock.advanceMs(1000);
    expect(ran).toHaveLength(1);
    expect(batcher.stats()).toMatchObject({ expiredBeforeRunItems: 1, completedItems: 1 });
  });

  test("a running item expires at its time; the others of its batch get their results", async () => {
    const { clock, batcher } = rig({ batchTimeoutMicros: 0, runMs: 100 });
    const results = [outcome(batcher.submit(1, { deadlineMs: 50 })), outcome(batcher.submit(2))];
    await clock.advanceMs(100);
    expect(await Promise.all(results)).toEqual(["deadline_exceeded", "2!"]);
    expect(batcher.stats()).toMatchObject({ expiredInRunItems: 1, completedItems: 1 });
  });

  test("no timer stays for items that are out, however they left", async () => {
    const { clock, batcher } = rig({ batchTimeoutMicros: 0, runMs: 10 });
    const controller = new AbortController();
    const results = [
      outcome(batcher.submit(1, { deadlineMs: 1e6 })),
      outcome(batcher.submit(2, { deadlineMs: 5 })),
      outcome(batcher.submit(3, { deadlineMs: 1e6, signal: controller.signal })),
    ];
    await clock.advanceMs(10);
    expect(await Promise.all(results)).toEqual(["1!", "deadline_exceeded", "3!"]);
    expect(clock.pendingTimers).toBe(0);
    const cancelledItem = outcome(batcher.submit(4, { deadlineMs: 1e6, signal: controller.signal }));
    const last = batcher.submit(5, { deadlineMs: 20 });
    controller.abort();
    await clock.advanceMs(10);
    expect([await cancelledItem, await last]).toEqual(["cancelled", "5!"]);
    expect(clock.pendingTimers).toBe(0);
  });

  test.each([0, -5])("a deadline of %d ms from now is exceeded on arrival", async (deadlineMs) => {
    const { batcher } = rig();
    expect(await outcome(batcher.submit(1, { deadlineMs }))).toBe("deadline_exceeded");
  });

  test("items whose timer is late are noticed when the batch is made", async () => {
    const { clock, batcher, ran } = rig({ policy: "adaptive", runMs: 30 });
    void batcher.submit(1);
    await clock.settle();
    // The end of the run was scheduled first, so at 30 ms the batch is made before the deadline's timer fires.
    const expired = outcome(batcher.submit(2, { deadlineMs: 30 }));
    await clock.advanceMs(100);
    expect(await expired).toBe("deadline_exceeded");
    expect(ran).toHaveLength(1);
  });
});
