import { describe, expect, test } from "vitest";
import type { Batch, BatcherOptions } from "./index.ts";
import { Batcher, BatcherError } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

interface Rig<Item> {
  readonly clock: FakeClock;
  readonly batcher: Batcher<Item, string>;
  /** Batches in the order in which they were run. */
  readonly ran: Batch<Item>[];
}

/** A batcher whose runs take `runMs` and answer `item!`. */
function rig<Item = number>(options: Partial<BatcherOptions<Item, string>> & { runMs?: number } = {}): Rig<Item> {
  const clock = new FakeClock();
  const ran: Batch<Item>[] = [];
  const { runMs = 10, ...rest } = options;
  const batcher = new Batcher<Item, string>({
    clock,
    policy: "window",
    maxBatchSize: 4,
    run: (batch) => {
      ran.push(batch);
      return new Promise((resolve) => {
        clock.schedule(() => resolve(batch.items.map((item) => `${String(item)}!`)), runMs);
      });
    },
    ...rest,
  });
  return { clock, batcher, ran };
}

/** Resolves with the code that a promise is rejected with, or with its value. */
async function outcome(promise: Promise<unknown>): Promise<unknown> {
  try {
    return await promise;
  } catch (error) {
    return error instanceof BatcherError ? error.code : error;
  }
}

async function failure(promise: Promise<unknown>): Promise<BatcherError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof BatcherError) {
      return error;
    }
  }
  throw new Error("expected a BatcherError");
}

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

describe("priorities", () => {
  test("the higher goes first; of one priority the older", async () => {
    const { clock, batcher, ran } = rig({ maxBatchSize: 2, batchTimeoutMicros: 0 });
    for (const [item, priority] of [
      [1, 0],
      [2, 5],
      [3, 0],
      [4, 9],
      [5, 5],
    ] as const) {
      void batcher.submit(item, { priority });
    }
    await clock.advanceMs(100);
    expect(ran.map(({ items }) => items)).toEqual([[4, 2], [5, 1], [3]]);
  });

  test("an item that has waited long enough goes before newer ones of higher priority", async () => {
    const { clock, batcher, ran } = rig({ policy: "adaptive", maxBatchSize: 1, runMs: 10, agingMs: 20 });
    void batcher.submit(0);
    await clock.settle();
    void batcher.submit(1, { priority: 0 });
    for (let i = 0; i < 6; i += 1) {
      void batcher.submit(100 + i, { priority: 1 });
      await clock.advanceMs(10);
    }
    expect(ran.map(({ items }) => items[0])).toEqual([0, 100, 1, 101, 102, 103, 104]);
  });

  test.each([-1, 10, 0.5, NaN])("priority %d is refused", async (priority) => {
    const { batcher } = rig();
    expect(await failure(batcher.submit(1, { priority }))).toMatchObject({
      code: "invalid_argument",
      message: `priority: expected a whole number from 0 to 9, received ${priority}`,
    });
  });
});

describe("a full queue", () => {
  test("refuses what exceeds the number of items, and says which limit and when to come back", async () => {
    const { clock, batcher } = rig({ maxBatchSize: 2, maxEnqueuedItems: 2, runMs: 7 });
    const first = batcher.submit(0);
    batcher.flush();
    await clock.advanceMs(7);
    await first;
    const accepted = [1, 2].map((item) => batcher.submit(item));
    expect(await failure(batcher.submit(3))).toMatchObject({
      code: "overloaded",
      message: "the queue is full: maxEnqueuedItems is 2, and it holds 2",
      limitName: "maxEnqueuedItems",
      limit: 2,
      current: 2,
      retryAfterMs: 7,
    });
    await clock.advanceMs(20);
    expect(await Promise.all(accepted)).toEqual(["1!", "2!"]);
  });

  test("refuses what exceeds the summed size", async () => {
    const { batcher } = rig({ sizeOf: (item) => item, maxBatchSize: 5, maxEnqueuedSize: 6 });
    void batcher.submit(4);
    expect(await failure(batcher.submit(3))).toMatchObject({ limitName: "maxEnqueuedSize", limit: 6, current: 4 });
    expect(batcher.stats()).toMatchObject({ refusedItems: 1, queuedItems: 1, queuedSize: 4 });
  });

  test("counts what it refuses apart by why, in a copy", async () => {
    const { batcher } = rig({ maxBatchSize: 1, maxEnqueuedItems: 1 });
    const before = batcher.stats();
    const outcomes = [outcome(batcher.submit(1)), outcome(batcher.submit(2)), outcome(batcher.submit(3))];
    outcomes.push(outcome(batcher.submit(4, { deadlineMs: 0 })), outcome(batcher.submit(5, { priority: -1 })));
    void batcher.drain();
    outcomes.push(outcome(batcher.submit(6)));
    expect(await Promise.all(outcomes.slice(1))).toEqual([
      "overloaded",
      "overloaded",
      "deadline_exceeded",
      "invalid_argument",
      "draining",
    ]);
    expect(batcher.stats()).toMatchObject({
      refusedItems: 5,
      refusedByCode: { overloaded: 2, deadline_exceeded: 1, invalid_argument: 1, draining: 1 },
    });
    expect(before.refusedByCode).toEqual({});
    batcher.close();
  });

  test("evicts the newest of the lowest priority for one of higher", async () => {
    const { clock, batcher } = rig({ maxBatchSize: 3, maxEnqueuedItems: 3, batchTimeoutMicros: 1000 });
    const results = [
      outcome(batcher.submit(1, { priority: 1 })),
      outcome(batcher.submit(2, { priority: 1 })),
      outcome(batcher.submit(3, { priority: 2 })),
      outcome(batcher.submit(4, { priority: 2 })),
      outcome(batcher.submit(5, { priority: 1 })),
    ];
    await clock.advanceMs(20);
    expect(await Promise.all(results)).toEqual(["1!", "overloaded", "3!", "4!", "overloaded"]);
    expect(batcher.stats()).toMatchObject({ evictedItems: 1, refusedItems: 1 });
  });

  test("evicts nothing when that would not make enough room", async () => {
    const { batcher } = rig({ sizeOf: (item) => item, maxBatchSize: 6, maxEnqueuedSize: 6 });
    void batcher.submit(1, { priority: 0 });
    void batcher.submit(4, { priority: 3 });
    expect(await outcome(batcher.submit(3, { priority: 2 }))).toBe("overloaded");
    expect(batcher.stats()).toMatchObject({ queuedItems: 2, evictedItems: 0 });
  });
});

describe("items larger than a batch", () => {
  const split = (item: readonly number[], maxSize: number): number[][] => {
    const parts: number[][] = [];
    for (let i = 0; i < item.length; i += maxSize) {
      parts.push(item.slice(i, i + maxSize));
    }
    return parts;
  };
  const join = (results: readonly string[]): string => results.join("+");
  const sizeOf = (item: readonly number[]): number => item.length;

  test("are split, run in several batches, and joined in order", async () => {
    const { clock, batcher, ran } = rig<readonly number[]>({ sizeOf, split, join, batchTimeoutMicros: 0 });
    const result = batcher.submit([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const small = batcher.submit([10]);
    await clock.advanceMs(100);
    expect(ran.map(({ size }) => size)).toEqual([4, 4, 2]);
    expect(await result).toBe("1,2,3,4!+5,6,7,8!+9!");
    expect(await small).toBe("10!");
  });

  test("are refused with the limit without split and join", async () => {
    const { batcher } = rig<readonly number[]>({ sizeOf });
    expect(await failure(batcher.submit([1, 2, 3, 4, 5]))).toMatchObject({
      code: "too_large",
      message: "the item is too large: its size is 5, and maxBatchSize is 4",
      limitName: "maxBatchSize",
      limit: 4,
    });
  });

  test("are refused when they can never fit the queue", async () => {
    const { batcher } = rig<readonly number[]>({ sizeOf, split, join, maxEnqueuedSize: 5 });
    expect(await failure(batcher.submit([1, 2, 3, 4, 5, 6]))).toMatchObject({
      code: "too_large",
      limitName: "maxEnqueuedSize",
    });
  });

  test("fail with their first part that fails, and the rest is not run", async () => {
    let runs = 0;
    const { clock, batcher } = rig<readonly number[]>({
      sizeOf,
      split,
      join,
      run: () => {
        runs += 1;
        throw new Error("broken");
      },
    });
    expect(await outcome(batcher.submit([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]))).toBe("run_failed");
    await clock.settle();
    expect(runs).toBe(1);
    expect(batcher.stats().queuedItems).toBe(0);
  });

  test("leave the queue whole when they are cancelled", async () => {
    const { clock, batcher, ran } = rig<readonly number[]>({ sizeOf, split, join, policy: "adaptive" });
    const controller = new AbortController();
    const result = outcome(batcher.submit([1, 2, 3, 4, 5, 6, 7, 8, 9], { signal: controller.signal }));
    await clock.settle();
    expect(batcher.stats().queuedSize).toBe(5);
    controller.abort();
    expect(await result).toBe("cancelled");
    expect(batcher.stats().queuedSize).toBe(0);
    await clock.advanceMs(100);
    expect(ran).toHaveLength(1);
  });

  test("fail alone when join throws", async () => {
    const { clock, batcher } = rig<readonly number[]>({
      sizeOf,
      split,
      join: () => {
        throw new Error("no glue");
      },
    });
    const result = failure(batcher.submit([1, 2, 3, 4, 5]));
    await clock.advanceMs(100);
    expect(await result).toMatchObject({ code: "run_failed", message: "join threw", cause: new Error("no glue") });
  });

  test.each([
    {
      name: "throws",
      bad: () => {
        throw new Error("x");
      },
      message: "split threw",
    },
    { name: "gives nothing", bad: () => [], message: "split: expected a list of parts, received " },
    { name: "gives no list", bad: () => 5 as unknown as [], message: "split: expected a list of parts, received 5" },
    {
      name: "gives large parts",
      bad: (item: readonly number[]) => [item],
      message: "split: expected parts of size 4 or less, received one of 5",
    },
  ])("are refused when split $name", async ({ bad, message }) => {
    const { batcher } = rig<readonly number[]>({ sizeOf, split: bad, join });
    expect(await failure(batcher.submit([1, 2, 3, 4, 5]))).toMatchObject({ code: "invalid_argument", message });
  });
});

describe("a faulty callback", () => {
  test.each([
    {
      fault: "throws",
      run: () => {
        throw new Error("boom");
      },
      message: "the run of the batch threw",
      cause: new Error("boom"),
    },
    {
      fault: "rejects",
      run: () => Promise.reject(new Error("boom")),
      message: "the run of the batch was rejected",
      cause: new Error("boom"),
    },
    {
      fault: "gives too few results",
      run: () => [""],
      message: "the run of the batch must give 2 results, one an item, but gave 1",
    },
    {
      fault: "gives too many results",
      run: () => ["", "", ""],
      message: "the run of the batch must give 2 results, one an item, but gave 3",
    },
    {
      fault: "gives nothing",
      run: () => Promise.resolve(undefined as unknown as []),
      message: "the run of the batch must give a list of 2 results, one an item, but gave undefined",
    },
    {
      fault: "gives null",
      run: () => null as unknown as [],
      message: "the run of the batch must give a list of 2 results, one an item, but gave null",
    },
    {
      fault: "gives a string",
      run: () => "ab" as unknown as [],
      message: "the run of the batch must give a list of 2 results, one an item, but gave string",
    },
  ])("run that $fault fails its own batch only", async ({ run, message, cause }) => {
    let faulty = true;
    const { clock, batcher } = rig({
      batchTimeoutMicros: 0,
      run: (batch) => (faulty ? run() : batch.items.map(String)),
    });
    const failed = [failure(batcher.submit(1)), failure(batcher.submit(2))];
    await clock.settle();
    faulty = false;
    const next = batcher.submit(3);
    await clock.settle();
    for (const error of await Promise.all(failed)) {
      expect(error).toMatchObject({ code: "run_failed", message });
      expect(error.cause).toEqual(cause ?? new TypeError(message));
    }
    expect(await next).toBe("3");
    expect(batcher.stats()).toMatchObject({ failedBatches: 1, failedItems: 2, completedItems: 1 });
  });

  test("run that never settles fails after runTimeoutMs, is told so, and makes room", async () => {
    const ran: Batch<number>[] = [];
    let settle: (results: string[]) => void = () => {};
    const { clock, batcher } = rig({
      batchTimeoutMicros: 0,
      runTimeoutMs: 50,
      run: (batch) => {
        ran.push(batch);
        return ran.length > 1
          ? ["ok"]
          : new Promise((resolve) => {
              settle = resolve;
            });
      },
    });
    const hung = failure(batcher.submit(1));
    await clock.advanceMs(49);
    const next = batcher.submit(2);
    await clock.advanceMs(1);
    expect(await hung).toMatchObject({
      code: "run_timeout",
      message: "the run of the batch took longer than runTimeoutMs, 50",
    });
    expect(ran[0]?.signal.aborted).toBe(true);
    expect(await next).toBe("ok");
    settle(["too late"]);
    await clock.settle();
    expect(batcher.stats()).toMatchObject({ completedItems: 1, failedItems: 1, inFlightBatches: 0 });
  });

  test("an Error among the results fails its own item only", async () => {
    const { clock, batcher } = rig({ batchTimeoutMicros: 0, run: () => ["a", new RangeError("b"), "c"] });
    const results = [outcome(batcher.submit(1)), failure(batcher.submit(2)), outcome(batcher.submit(3))];
    await clock.settle();
    expect(await results[0]).toBe("a");
    expect(await results[1]).toMatchObject({ code: "run_failed", cause: new RangeError("b") });
    expect(await results[2]).toBe("c");
  });

  test("typed arrays are lists of results", async () => {
    const clock = new FakeClock();
    const batcher = new Batcher<number, number>({ clock, run: ({ items }) => Float32Array.from(items, (x) => x / 2) });
    const results = Promise.all([batcher.submit(1), batcher.submit(2)]);
    await clock.settle();
    expect(await results).toEqual([0.5, 1]);
  });

  test.each([
    {
      fault: "throws",
      sizeOf: () => {
        throw new Error("boom");
      },
      message: "sizeOf threw",
    },
    { fault: "gives 0", sizeOf: () => 0, message: "sizeOf: expected a whole number from 1, received 0" },
    { fault: "gives NaN", sizeOf: () => NaN, message: "sizeOf: expected a whole number from 1, received NaN" },
    { fault: "gives 1.5", sizeOf: () => 1.5, message: "sizeOf: expected a whole number from 1, received 1.5" },
    {
      fault: "gives text",
      sizeOf: () => "1" as unknown as number,
      message: "sizeOf: expected a whole number from 1, received 1",
    },
  ])("sizeOf that $fault fails its own item only", async ({ sizeOf, message }) => {
    const { clock, batcher } = rig({ batchTimeoutMicros: 0, sizeOf: (item) => (item === 1 ? sizeOf() : 1) });
    const bad = failure(batcher.submit(1));
    const good = batcher.submit(2);
    await clock.advanceMs(10);
    expect(await bad).toMatchObject({ code: "invalid_argument", message });
    expect(await good).toBe("2!");
  });

  test("hooks that throw are counted and change nothing", async () => {
    const fail = (): never => {
      throw new Error("hook");
    };
    const { clock, batcher } = rig({
      batchTimeoutMicros: 0,
      hooks: { onBatchStart: fail, onBatchEnd: fail, onItemDropped: fail },
    });
    const refused = outcome(batcher.submit(0, { deadlineMs: 0 }));
    const result = batcher.submit(1);
    await clock.advanceMs(10);
    expect(await result).toBe("1!");
    expect(await refused).toBe("deadline_exceeded");
    expect(batcher.stats().hookErrors).toBe(3);
  });
});

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

describe("options", () => {
  test.each([
    [{ maxBatchSize: 0 }, "maxBatchSize: expected a whole number from 1, received 0"],
    [{ policy: "fixed" as "off" }, 'policy: expected off | window | adaptive or a FlushPolicy, received "fixed"'],
    [{ batchTimeoutMicros: -1 }, "batchTimeoutMicros: expected 0 or more microseconds, received -1"],
    [{ maxInFlightBatches: 1.5 }, "maxInFlightBatches: expected a whole number from 1 or Infinity, received 1.5"],
    [{ runTimeoutMs: 0 }, "runTimeoutMs: expected more than 0 milliseconds, received 0"],
    [{ split: () => [] }, "split and join: expected both or neither"],
    [
      { maxBatchSize: 8, maxEnqueuedItems: 4 },
      "maxEnqueuedItems: expected at least maxBatchSize (8), received 4, with which no batch is ever full",
    ],
    [
      { maxBatchSize: 8, maxEnqueuedSize: 4 },
      "maxEnqueuedSize: expected at least maxBatchSize (8), received 4, with which no batch is ever full",
    ],
    [
      { maxBatchSize: 8, allowedBatchSizes: [4, 2, 8] },
      "allowedBatchSizes: expected rising whole numbers that end with maxBatchSize (8), received [4, 2, 8]",
    ],
    [
      { maxBatchSize: 8, allowedBatchSizes: [1, 2, 4] },
      "allowedBatchSizes: expected rising whole numbers that end with maxBatchSize (8), received [1, 2, 4]",
    ],
  ])("%o are refused", (options, message) => {
    const make = (): unknown => new Batcher({ run: () => [], ...options });
    expect(make).toThrow(new BatcherError("invalid_options", `invalid batcher options: ${message}`));
  });

  test("all problems are named at once", () => {
    expect(() => new Batcher({ run: 5 as unknown as () => [], maxBatchSize: 0, agingMs: NaN })).toThrow(
      "run: expected a function, received 5; maxBatchSize: expected a whole number from 1, received 0; " +
        "agingMs: expected more than 0 milliseconds, received NaN",
    );
  });
});
