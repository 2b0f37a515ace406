import { describe, expect, test } from "vitest";
import { outcome, rig } from "../test/batcher-rig.ts";
import type { BatcherOptions } from "./index.ts";
import { Batcher } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

describe("policy window", () => {
  test("a full batch runs at once, in the order of arrival, and each caller gets its own result", async () => {
    const { clock, batcher, ran } = rig();
    const results = Promise.all([1, 2, 3, 4].map((item) => batcher.submit(item)));
    await clock.settle();
    expect(ran.map(({ items, size, flushReason }) => ({ items, size, flushReason }))).toEqual([
      { items: [1, 2, 3, 4], size: 4, flushReason: "full" },
    ]);
    await clock.advanceMs(10);
    expect(await results).toEqual(["1!", "2!", "3!", "4!"]);
  });

  test("the window counts from the oldest arrival", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 1500 });
    void batcher.submit(1);
    await clock.advanceMs(1);
    void batcher.submit(2);
    await clock.advanceMs(0.499);
    expect(ran).toHaveLength(0);
    await clock.advanceMs(0.002);
    expect(ran[0]?.items).toEqual([1, 2]);
    expect(ran[0]?.flushReason).toBe("timeout");
  });

  test("a window of 0 runs what came together", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 0 });
    void batcher.submit(1);
    void batcher.submit(2);
    await clock.settle();
    expect(ran.map(({ items }) => items)).toEqual([[1, 2]]);
  });

  test("what comes while a batch runs waits no longer than the window, even if that has passed by then", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 1000, runMs: 10 });
    void batcher.submit(1);
    await clock.advanceMs(2);
    void batcher.submit(2);
    await clock.advanceMs(8.9);
    expect(ran).toHaveLength(1);
    await clock.advanceMs(0.2);
    expect(ran[1]?.items).toEqual([2]);
  });

  test("a deadline before the end of the window flushes early enough for the run", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 100_000, runMs: 10 });
    // Teaches that a batch takes 10 ms.
    void batcher.submit(0);
    batcher.flush();
    await clock.advanceMs(10);
    const result = batcher.submit(1, { deadlineMs: 50 });
    await clock.advanceMs(37);
    expect(ran).toHaveLength(1);
    await clock.advanceMs(1);
    expect(ran[1]?.flushReason).toBe("deadline");
    await clock.advanceMs(10);
    expect(await result).toBe("1!");
  });

  test("batches of items with sizes are bounded by the sum", async () => {
    const { clock, batcher, ran } = rig({
      sizeOf: (item) => item,
      batchTimeoutMicros: 0,
      maxInFlightBatches: 9,
    });
    for (const item of [3, 2, 2, 4, 1]) {
      void batcher.submit(item);
    }
    await clock.settle();
    expect(ran.map(({ items }) => items)).toEqual([[3], [2, 2], [4], [1]]);
  });
});

describe("flush", () => {
  test("what it was told to send and has left is not made up for by what comes later", async () => {
    const { clock, batcher, ran } = rig({ batchTimeoutMicros: 5000 });
    const controller = new AbortController();
    const gone = outcome(batcher.submit(1, { signal: controller.signal }));
    batcher.flush();
    controller.abort();
    void batcher.submit(2);
    await clock.advanceMs(4);
    expect(await gone).toBe("cancelled");
    expect(ran).toEqual([]);
    await clock.advanceMs(1);
    expect(ran.map(({ items, flushReason }) => [items, flushReason])).toEqual([[[2], "timeout"]]);
  });

  test.each([
    [1.5, [[1], [2]]],
    [0, [[1, 2]]],
    [-1, [[1, 2]]],
    [NaN, [[1, 2]]],
  ])("of the first %d items sends whole ones", async (maxItems, batches) => {
    const { clock, batcher, ran } = rig();
    void batcher.submit(1);
    void batcher.submit(2);
    batcher.flush(maxItems);
    await clock.advanceMs(20);
    expect(ran.map(({ items }) => items)).toEqual(batches);
    expect(batcher.stats()).toMatchObject({ queuedItems: 0, queuedSize: 0, completedItems: 2 });
  });
});

describe("policy off", () => {
  test("each item runs alone, as many at a time as may be in flight", async () => {
    const { clock, batcher, ran } = rig({ policy: "off", maxInFlightBatches: 2 });
    const results = Promise.all([1, 2, 3].map((item) => batcher.submit(item)));
    await clock.settle();
    expect(ran.map(({ items }) => items)).toEqual([[1], [2]]);
    await clock.advanceMs(20);
    expect(await results).toEqual(["1!", "2!", "3!"]);
    expect(batcher.stats().batches.full).toBe(3);
  });
});

describe("policy adaptive", () => {
  test("an item that finds room runs at once, and what comes meanwhile is the next batch", async () => {
    const { clock, batcher, ran } = rig({ policy: "adaptive" });
    void batcher.submit(1);
    await clock.settle();
    void batcher.submit(2);
    void batcher.submit(3);
    await clock.advanceMs(9);
    expect(ran.map(({ items, flushReason }) => ({ items, flushReason }))).toEqual([
      { items: [1], flushReason: "idle" },
    ]);
    await clock.advanceMs(1);
    expect(ran[1]?.items).toEqual([2, 3]);
  });
});

describe("allowed batch sizes", () => {
  const allowedBatchSizes = [1, 2, 4, 8];
  test.each([
    { paddingPolicy: "padUp", sizes: [5], padded: [8] },
    { paddingPolicy: "batchDown", sizes: [4, 1], padded: [4, 1] },
  ] as const)("$paddingPolicy sends 5 items as $sizes", async ({ paddingPolicy, sizes, padded }) => {
    const { clock, batcher, ran } = rig({
      allowedBatchSizes,
      paddingPolicy,
      maxBatchSize: 8,
      batchTimeoutMicros: 0,
      maxInFlightBatches: 2,
    });
    for (const item of [1, 2, 3, 4, 5]) {
      void batcher.submit(item);
    }
    await clock.settle();
    expect(ran.map(({ size }) => size)).toEqual(sizes);
    expect(ran.map(({ paddedSize }) => paddedSize)).toEqual(padded);
  });

  test.each([
    { cost: "all per item", fixedMs: 0, sizes: [4, 1] },
    { cost: "all fixed", fixedMs: 100, sizes: [5] },
  ])("minimizeCost with a cost that is $cost sends 5 items as $sizes", async ({ fixedMs, sizes }) => {
    const clock = new FakeClock();
    const ran: number[] = [];
    const batcher = new Batcher<number, number>({
      clock,
      policy: "window",
      allowedBatchSizes,
      maxBatchSize: 8,
      batchTimeoutMicros: 0,
      run: ({ items, size, paddedSize }) => {
        ran.push(size);
        return new Promise((resolve) => {
          clock.schedule(() => resolve(items), fixedMs + paddedSize);
        });
      },
    });
    // Eight and five come together: where there has been room for long, a small batch would save nothing.
    for (const count of [1, 2, 4, 13]) {
      const all = Promise.all(Array.from({ length: count }, (_, i) => batcher.submit(i)));
      await clock.advanceMs(1000);
      await all;
    }
    expect(ran).toEqual([1, 2, 4, 8, ...sizes]);
  });
});

describe("collectUntil", () => {
  const submitInTicks = async (collectUntil: "tick" | "poll"): Promise<readonly (readonly number[])[]> => {
    const { clock, batcher, ran } = rig({ policy: "adaptive", collectUntil, maxInFlightBatches: 4 });
    for (const item of [1, 2, 3]) {
      void batcher.submit(item);
      // As after the callback of a read: microtasks, and no more.
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    }
    await clock.advanceMs(0);
    return ran.map(({ items }) => items);
  };

  test("tick: what each read brings goes at once", async () => {
    expect(await submitInTicks("tick")).toEqual([[1], [2], [3]]);
  });

  test("poll: what all reads bring that are ready goes together", async () => {
    expect(await submitInTicks("poll")).toEqual([[1, 2, 3]]);
  });

  test("poll: with the machine's clock, batches are made after the I/O that is ready", async () => {
    const ran: (readonly number[])[] = [];
    const batcher = new Batcher<number, number>({
      collectUntil: "poll",
      run: ({ items }) => {
        ran.push(items);
        return items;
      },
    });
    const first = batcher.submit(1);
    const second = Promise.resolve().then(() => batcher.submit(2));
    expect(await Promise.all([first, second])).toEqual([1, 2]);
    expect(ran).toEqual([[1, 2]]);
  });

  /** A clock whose time passes while things happen, and a policy that notes what it is told of them. */
  const watched = (options: Partial<BatcherOptions<number, number>> = {}) => {
    const time = { nowMs: 0 };
    const due: (() => void)[] = [];
    const told: string[] = [];
    const batcher = new Batcher<number, number>({
      collectUntil: "poll",
      clock: {
        now: () => time.nowMs,
        schedule: (callback, _, precise) => precise && due.push(callback),
        cancel: () => {},
      },
      policy: {
        decide: () => ({ flush: true, reason: "idle", maxItems: Infinity, maxSize: Infinity }),
        arrived: (nowMs, items) => told.push(`${items} at ${nowMs}`),
        answered: (nowMs, items) => told.push(`${items} answered at ${nowMs}`),
      },
      run: ({ items }) => items,
      ...options,
    });
    const poll = (): void => due.shift()?.();
    return { time, told, batcher, poll };
  };
  const settle = (): Promise<void> => new FakeClock().settle();

  test("poll: each item has come when it came, not when the first did that goes with it", async () => {
    const { time, told, batcher, poll } = watched();
    for (const atMs of [0, 3, 5]) {
      time.nowMs = atMs;
      void batcher.submit(1);
      void batcher.submit(2);
      await settle();
    }
    time.nowMs = 6;
    poll();
    expect(told).toEqual(["2 at 0", "2 at 3", "2 at 5"]);
  });

  test.each([{}, { deadlineMs: 100 }])(
    "poll: callers that come back with %o come after they were answered",
    async (options) => {
      const runs: (() => void)[] = [];
      const { time, told, batcher, poll } = watched({
        run: ({ items }) => new Promise((resolve) => runs.push(() => resolve(items))),
      });
      void batcher.submit(1).then(() => batcher.submit(2, options));
      await settle();
      poll();
      time.nowMs = 3;
      void batcher.submit(3);
      await settle();
      time.nowMs = 5;
      runs[0]?.();
      await settle();
      poll();
      expect(told).toEqual(["1 at 0", "1 at 3", "1 answered at 5", "1 at 5"]);
    },
  );

  test.each(["tick", "poll"] as const)(
    "%s: what is submitted when its answer is told comes after that",
    async (collectUntil) => {
      const runs: (() => void)[] = [];
      const { time, told, batcher, poll } = watched({
        collectUntil,
        run: ({ items }) => new Promise((resolve) => runs.push(() => resolve(items))),
      });
      batcher.enqueue(1, () => batcher.enqueue(2, () => {}));
      await settle();
      poll();
      runs[0]?.();
      time.nowMs = 3;
      batcher.enqueue(3, () => {});
      time.nowMs = 5;
      await settle();
      poll();
      expect(told).toEqual(["1 at 0", "1 at 3", "1 answered at 5", "1 at 5"]);
    },
  );

  test("poll: what ends a wait goes with the poll that brought it", async () => {
    const { clock, batcher, ran } = rig({ policy: "window", collectUntil: "poll" });
    void batcher.submit(1);
    await clock.advanceMs(0);
    expect(ran).toEqual([]);
    for (const item of [2, 3, 4]) {
      void batcher.submit(item);
    }
    await clock.next();
    expect(ran.map(({ items, flushReason }) => [items, flushReason])).toEqual([[[1, 2, 3, 4], "full"]]);
  });

  test.each(["tick", "poll"] as const)(
    "%s: what a run submits in one go goes together, after it",
    async (collectUntil) => {
      const clock = new FakeClock();
      const ran: (readonly number[])[] = [];
      let running = false;
      const batcher: Batcher<number, number> = new Batcher({
        clock,
        collectUntil,
        maxInFlightBatches: 10,
        run: ({ items }) => {
          expect(running).toBe(false);
          running = true;
          ran.push(items);
          const [first = 0] = items;
          if (first < 5) {
            void batcher.submit(first + 1, { priority: 1 });
            void batcher.submit(first + 2);
          }
          running = false;
          return items;
        },
      });
      void batcher.submit(4);
      await clock.advanceMs(0);
      expect(ran).toEqual([[4], [5, 6]]);
    },
  );

  test("poll: a drain and a close while a batch is to be made lose nothing", async () => {
    const { clock, batcher } = rig({ policy: "adaptive", collectUntil: "poll" });
    const drained = batcher.submit(1);
    const end = batcher.drain();
    await clock.advanceMs(10);
    expect(await drained).toBe("1!");
    await end;
    const other = rig({ policy: "adaptive", collectUntil: "poll" });
    const closed = outcome(other.batcher.submit(1));
    other.batcher.close();
    await other.clock.advanceMs(10);
    expect(await closed).toBe("closed");
  });
});
