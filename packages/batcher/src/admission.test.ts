import { describe, expect, test } from "vitest";
import { failure, outcome, rig } from "../test/batcher-rig.ts";

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

test.each([
  ["close", "closed"],
  ["drain", "draining"],
] as const)("an item is not taken by a batcher that a hook has told to %s meanwhile", async (end, code) => {
  const { clock, batcher, ran } = rig({
    policy: "adaptive",
    maxBatchSize: 1,
    maxEnqueuedItems: 1,
    hooks: { onItemDropped: () => void batcher[end]() },
  });
  const results = [outcome(batcher.submit(1))];
  await clock.settle();
  results.push(outcome(batcher.submit(2)), outcome(batcher.submit(3, { priority: 1 })));
  await clock.advanceMs(100);
  expect(await Promise.all(results)).toEqual([end === "close" ? "closed" : "1!", "overloaded", code]);
  expect(ran).toHaveLength(1);
  expect(batcher.stats()).toMatchObject({
    submittedItems: 3,
    evictedItems: 1,
    queuedItems: 0,
    refusedByCode: { [code]: 1 },
  });
});
