import { describe, expect, test } from "vitest";
import { failure, outcome, rig } from "../test/batcher-rig.ts";

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
