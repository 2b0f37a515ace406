import { describe, expect, test } from "vitest";
import type { RingBatch } from "../src/shared/index.ts";
import {
  BatcherError,
  closeRing,
  createSharedRing,
  drainRing,
  RingConsumer,
  RingProducer,
} from "../src/shared/index.ts";
import type { Schema } from "./ring-sums.ts";
import { code, run, schema, submit, turns } from "./ring-sums.ts";

describe("a ring that runs several batches at a time", () => {
  /** A run that ends when it is told to. */
  class Runs {
    readonly begun: RingBatch<Schema>[] = [];
    readonly #end: ((fails: boolean) => void)[] = [];
    readonly run = async (batch: RingBatch<Schema>): Promise<void> => {
      const at = this.begun.push(batch) - 1;
      const fails = await new Promise<boolean>((resolve) => (this.#end[at] = resolve));
      if (fails) {
        throw new Error("device on fire");
      }
      run(batch);
    };

    /** Of the batch that was the `at`-th to begin. */
    end(at: number, fails = false): void {
      this.#end[at]?.(fails);
    }
  }

  test("publishes each when its own run ends, and begins no more than it may", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 4 });
    const producer = new RingProducer(ring);
    const infos: [string, number, number][] = [];
    const consumer = new RingConsumer(ring, {
      maxInFlightBatches: 2,
      hooks: {
        onBatchStart: ({ id, inFlightBatches }) => infos.push(["start", id, inFlightBatches]),
        onBatchEnd: ({ id, inFlightBatches }) => infos.push(["end", id, inFlightBatches]),
      },
    });
    const runs = new Runs();
    const served = consumer.serve(runs.run);
    const results = [1, 2, 3, 4, 5].map((i) => submit(producer, [[i, 0, 0]]).catch((error: unknown) => error));
    await turns();
    expect(runs.begun.map(({ slot }) => slot)).toEqual([0, 1]);
    expect(consumer.stats().inFlightBatches).toBe(2);
    runs.end(1);
    expect(await results[1]).toEqual([2]);
    await turns();
    expect(runs.begun.map(({ slot }) => slot)).toEqual([0, 1, 2]);
    runs.end(2, true);
    expect(await results[2]).toMatchObject({
      code: "run_failed",
      message: "the run of the batch failed: device on fire",
    });
    await turns();
    // The fifth waits for room: its slot is that of the first, which runs.
    expect(runs.begun.map(({ slot }) => slot)).toEqual([0, 1, 2, 3]);
    runs.end(3);
    expect(await results[3]).toEqual([4]);
    await turns();
    expect(runs.begun).toHaveLength(4);
    runs.end(0);
    expect(await results[0]).toEqual([1]);
    await turns();
    runs.end(4);
    expect(await results[4]).toEqual([5]);
    expect(infos).toEqual([
      ["start", 1, 1],
      ["start", 2, 2],
      ["end", 2, 2],
      ["start", 3, 2],
      ["end", 3, 2],
      ["start", 4, 2],
      ["end", 4, 2],
      ["end", 1, 1],
      ["start", 5, 1],
      ["end", 5, 1],
    ]);
    expect(consumer.stats()).toMatchObject({ inFlightBatches: 0, failedBatches: 1, batchedItems: 5 });
    drainRing(ring);
    await served;
  });

  test("drains: what runs is answered before the ring ends", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 4 });
    const producer = new RingProducer(ring);
    const runs = new Runs();
    const served = new RingConsumer(ring, { maxInFlightBatches: 3 }).serve(runs.run);
    const results = [1, 2].map((i) => submit(producer, [[i, 0, 0]]));
    await turns();
    drainRing(ring);
    await turns();
    runs.end(1);
    expect(await results[1]).toEqual([2]);
    runs.end(0);
    expect(await results[0]).toEqual([1]);
    await served;
  });

  test("serves until the last run has ended when it is closed", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 4 });
    const producer = new RingProducer(ring);
    const runs = new Runs();
    let isOver = false;
    const served = new RingConsumer(ring, { maxInFlightBatches: 3 }).serve(runs.run).then(() => (isOver = true));
    const results = [1, 2].map((i) => code(submit(producer, [[i, 0, 0]])));
    await turns();
    closeRing(ring);
    expect(await Promise.all(results)).toEqual(["closed", "closed"]);
    runs.end(0);
    await turns();
    expect(isOver).toBe(false);
    runs.end(1);
    await served;
  });

  test("fails a run that does not settle, and its batch only; what it writes later is nobody's result", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2, spareSlots: 1 });
    const producer = new RingProducer(ring);
    const consumer = new RingConsumer(ring, { runTimeoutMs: 1 });
    const begun: RingBatch<Schema>[] = [];
    const stuck: (() => void)[] = [];
    const served = consumer.serve(async (batch) => {
      begun.push(batch);
      if (batch.inputs.x[0] === 7) {
        await new Promise<void>((resolve) => stuck.push(resolve));
      }
      run(batch);
    });
    const timedOut = (): Promise<unknown> => submit(producer, [[7, 0, 0]]).catch((error: unknown) => error);
    expect(await timedOut()).toMatchObject({
      code: "run_timeout",
      message: "the run of the batch took longer than runTimeoutMs, 1",
    });
    expect(begun[0]?.signal.aborted).toBe(true);
    for (let i = 0; i < 6; i += 1) {
      begun[0]?.outputs.sum.fill(-1);
      expect(await submit(producer, [[i, 0, 0]])).toEqual([i]);
    }
    // With all spare memory gone a slot waits for its run: the ring goes on once that has ended.
    expect(await timedOut()).toMatchObject({ code: "run_timeout" });
    const results = [1, 2, 3].map((i) => submit(producer, [[i, 0, 0]]));
    expect(await results[0]).toEqual([1]);
    await turns();
    expect(producer.stats()).toMatchObject({ itemsInRing: 0, waitingItems: 2 });
    stuck[1]?.();
    expect(await Promise.all(results)).toEqual([[1], [2], [3]]);
    stuck[0]?.();
    await turns();
    expect(await timedOut()).toMatchObject({ code: "run_timeout" });
    for (let i = 0; i < 6; i += 1) {
      expect(await submit(producer, [[i, 0, 0]])).toEqual([i]);
    }
    expect(consumer.stats()).toMatchObject({ failedBatches: 3, inFlightBatches: 0 });
    drainRing(ring);
    await served;
  });

  test.each([
    [{ maxInFlightBatches: 0 }, "maxInFlightBatches: expected a whole number from 1 to slots (4), received 0"],
    [{ maxInFlightBatches: 5 }, "maxInFlightBatches: expected a whole number from 1 to slots (4), received 5"],
    [{ runTimeoutMs: 0 }, "runTimeoutMs: expected more than 0 milliseconds, received 0"],
    [{ runTimeoutMs: 5 }, "runTimeoutMs: expected a ring made with spareSlots from 1, received 0"],
  ])("refuses %o", (options, message) => {
    const ring = createSharedRing({ schema, maxBatchSize: 4 });
    expect(() => new RingConsumer(ring, options)).toThrow(new BatcherError("invalid_options", message));
  });

  test("does not block for it", () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, spareSlots: 1 });
    for (const options of [{ maxInFlightBatches: 2 }, { runTimeoutMs: 5 }]) {
      expect(() => new RingConsumer(ring, options).serveBlocking(run)).toThrow(
        "serveBlocking: expected neither maxInFlightBatches above 1 nor runTimeoutMs; they are for serve",
      );
    }
  });
});
