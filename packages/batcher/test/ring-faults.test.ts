import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FlushDecision, FlushPolicy } from "../src/index.ts";
import type { RingConsumerOptions } from "../src/shared/index.ts";
import { createSharedRing, drainRing, RingConsumer, RingProducer } from "../src/shared/index.ts";
import { run, schema, submit } from "./ring-sums.ts";

const FLUSH: FlushDecision = { flush: true, reason: "idle", maxItems: Infinity, maxSize: Infinity };

/** A policy one of whose methods throws when it is called for the `at`-th time. */
function failing(method: keyof FlushPolicy, at: number): FlushPolicy {
  let calls = 0;
  const call = (name: keyof FlushPolicy): void => {
    if (name === method) {
      calls += 1;
      if (calls === at) {
        throw new Error("boom");
      }
    }
  };
  return {
    decide: () => {
      call("decide");
      return FLUSH;
    },
    arrived: () => call("arrived"),
    answered: () => call("answered"),
  };
}

/** Ways in which batches are run. */
const WAYS: readonly [string, RingConsumerOptions][] = [
  ["one at a time", {}],
  ["several at a time", { maxInFlightBatches: 2 }],
  ["with a time limit", { runTimeoutMs: 1000 }],
];

describe.each(WAYS)("a ring that runs batches %s", (_, options) => {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);

  beforeEach(() => {
    unhandled.length = 0;
    process.on("unhandledRejection", onUnhandled);
    process.on("uncaughtException", onUnhandled);
  });
  afterEach(() => {
    process.off("unhandledRejection", onUnhandled);
    process.off("uncaughtException", onUnhandled);
  });

  /** What becomes of five items, one after the other. */
  async function outcomes(more: RingConsumerOptions, serving = run): Promise<unknown[]> {
    const ring = createSharedRing({ schema, maxBatchSize: 4, slots: 2, spareSlots: 1 });
    const producer = new RingProducer(ring);
    const consumer = new RingConsumer(ring, { ...options, ...more });
    const served = consumer.serve(serving);
    const results: unknown[] = [];
    for (let i = 0; i < 5; i += 1) {
      results.push(
        await submit(producer, [[i, 0, 0]]).then(
          ([sum]) => sum,
          (error: Error) => error.message,
        ),
      );
    }
    drainRing(ring);
    await served;
    expect(consumer.stats().inFlightBatches).toBe(0);
    expect(unhandled).toEqual([]);
    return [...results, consumer.stats().failedBatches, consumer.stats().hookErrors];
  }

  test.each<[keyof FlushPolicy, readonly unknown[]]>([
    ["decide", [0, 1, "the policy threw: boom", 3, 4, 1, 0]],
    ["arrived", [0, 1, "the policy threw: boom", 3, 4, 1, 0]],
    ["answered", [0, 1, 2, "the policy threw: boom", 4, 1, 0]],
  ])("fails one batch when the policy's %s throws once, and goes on", async (method, expected) => {
    expect(await outcomes({ policy: failing(method, 3) })).toEqual(expected);
  });

  test("counts hooks that throw, and goes on", async () => {
    const fail = (): never => {
      throw new Error("hook");
    };
    expect(await outcomes({ hooks: { onBatchStart: fail, onBatchEnd: fail } })).toEqual([0, 1, 2, 3, 4, 0, 10]);
  });

  test("fails the batch whose run throws what cannot be shown, and goes on", async () => {
    const message = "the run of the batch failed: what was thrown cannot be shown";
    const result = await outcomes({}, (batch) => {
      if (batch.inputs.x[0] === 1) {
        // oxlint-disable-next-line typescript/only-throw-error -- callers throw anything
        throw Object.create(null);
      }
      run(batch);
    });
    expect(result).toEqual([0, message, 2, 3, 4, 1, 0]);
  });
});

test("a thread that blocks fails the batch of which the policy throws, and goes on", async () => {
  const ring = createSharedRing({ schema, maxBatchSize: 2, slots: 4 });
  const producer = new RingProducer(ring);
  const result = submit(producer, [[1, 0, 0]]).catch((error: Error) => error.message);
  const consumer = new RingConsumer(ring, {
    policy: { ...failing("decide", 1), answered: () => drainRing(ring) },
  });
  consumer.serveBlocking(run);
  expect(await result).toBe("the policy threw: boom");
  expect(consumer.stats()).toMatchObject({ failedBatches: 1, batchedItems: 1, inFlightBatches: 0 });
});
