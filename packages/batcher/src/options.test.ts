import { describe, expect, test } from "vitest";
import { Batcher, BatcherError } from "./index.ts";

describe("options", () => {
  test.each([
    [{ maxBatchSize: 0 }, "maxBatchSize: expected a whole number from 1, received 0"],
    [{ policy: "fixed" as "off" }, 'policy: expected off | window | adaptive or a FlushPolicy, received "fixed"'],
    [{ collectUntil: "read" as "poll" }, 'collectUntil: expected tick | poll, received "read"'],
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

  test.each(["maxBatchsize", "batchTimeoutMs", "runtimeoutms", "constructor"])(
    "%s, which is none, is refused",
    (name) => {
      expect(() => new Batcher({ run: () => [], [name]: 1 })).toThrow(
        new BatcherError(
          "invalid_options",
          `invalid batcher options: there is no option ${name}, expected only run, sizeOf, maxBatchSize, allowedBatchSizes, ` +
            "paddingPolicy, policy, collectUntil, batchTimeoutMicros, latencyBudgetMs, maxEnqueuedItems, maxEnqueuedSize, " +
            "maxInFlightBatches, split, join, runTimeoutMs, agingMs, clock, hooks",
        ),
      );
    },
  );

  test("all problems are named at once", () => {
    expect(() => new Batcher({ run: 5 as unknown as () => [], maxBatchSize: 0, agingMs: NaN })).toThrow(
      "run: expected a function, received 5; maxBatchSize: expected a whole number from 1, received 0; " +
        "agingMs: expected more than 0 milliseconds, received NaN",
    );
  });
});
