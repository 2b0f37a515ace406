import { describe, expect, test } from "vitest";
import { failure, outcome, rig } from "../test/batcher-rig.ts";
import type { Batch } from "./index.ts";
import { Batcher } from "./index.ts";
import { FakeClock } from "./testing/index.ts";

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
