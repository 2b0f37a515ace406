import { expect, test } from "vitest";
import { BatcherError } from "../index.ts";
import { PuppetBatcher } from "./index.ts";

test("nothing runs until the test says so, then what it says", async () => {
  const batcher = new PuppetBatcher<number, number>({ run: ({ items }) => items.map((x) => x * 2), maxBatchSize: 2 });
  const results = Promise.all([1, 2, 3, 4, 5].map((x) => batcher.submit(x)));
  await batcher.clock.advanceMs(1e6);
  expect(batcher.stats()).toMatchObject({ queuedItems: 5, completedItems: 0 });
  expect(await batcher.runItems(1)).toBe(1);
  expect(batcher.stats()).toMatchObject({ queuedItems: 4, completedItems: 1 });
  expect(await batcher.runItems()).toBe(4);
  expect(await results).toEqual([2, 4, 6, 8, 10]);
  expect(await batcher.runItems()).toBe(0);
});

test("deadlines count on the puppet's clock", async () => {
  const batcher = new PuppetBatcher<number, number>({ run: ({ items }) => items });
  const result = batcher.submit(1, { deadlineMs: 5 }).catch((error: unknown) => error);
  await batcher.clock.advanceMs(5);
  const error = await result;
  expect(error).toBeInstanceOf(BatcherError);
  expect(error).toMatchObject({ code: "deadline_exceeded" });
});

test("drain and close end it", async () => {
  const batcher = new PuppetBatcher<number, number>({ run: ({ items }) => items });
  const result = batcher.submit(1);
  await batcher.drain();
  expect(await result).toBe(1);
  batcher.close();
  await expect(batcher.submit(2)).rejects.toMatchObject({ code: "closed" });
});

test.each(["tick", "poll"] as const)(
  "runs what waits when it is told to, whatever it would be collected until (%s)",
  async (collectUntil) => {
    const batcher = new PuppetBatcher<number, number>({
      collectUntil,
      run: ({ items }) => items.map((item) => item * 2),
    });
    const results = Promise.all([batcher.submit(1), batcher.submit(2)]);
    expect(await batcher.runItems()).toBe(2);
    expect(await results).toEqual([2, 4]);
  },
);
