import { describe, expect, test } from "vitest";
import type { FlushPolicy } from "../flush-policy.ts";
import type { RingBatch, RingSubmitOptions, SharedRing } from "./index.ts";
import {
  BatcherError,
  buryConsumer,
  buryProducer,
  closeRing,
  createSharedRing,
  drainRing,
  FULL,
  RingConsumer,
  RingPort,
  RingProducer,
} from "./index.ts";
import { OffPolicy } from "../flush-policy.ts";
import { numberOf, takeNumber } from "./producer-numbers.ts";
import { RingHints } from "./ring-hints.ts";
import { mapControl, shapeOf } from "./ring-memory.ts";
import {
  close,
  commit,
  DEAD,
  join,
  JOINED,
  publish,
  PUBLISHED,
  reserve,
  SLEEPING,
  slotAt,
  slotOfPlace,
  STATUS_OK,
  takeParticipants,
  tellLooks,
} from "./ring-protocol.ts";

const schema = {
  inputs: { x: { type: "float32", shape: [2] }, id: { type: "int32", shape: [] } },
  outputs: { sum: { type: "float64", shape: [] } },
} as const;

type Schema = typeof schema;

/** sum = x[0] + x[1] + id, for each row. */
function run({ inputs, outputs, size }: RingBatch<Schema>): void {
  for (let row = 0; row < size; row += 1) {
    outputs.sum[row] = (inputs.x[row * 2] as number) + (inputs.x[row * 2 + 1] as number) + (inputs.id[row] as number);
  }
}

/** Submits rows (a, b, id) and gives their sums. */
function submit(
  producer: RingProducer<Schema>,
  rows: readonly (readonly [number, number, number])[],
  options?: RingSubmitOptions,
): Promise<number[]> {
  return producer.submit(
    rows.length,
    ({ inputs }, row) => {
      for (const [i, [a, b, id]] of rows.entries()) {
        inputs.x[(row + i) * 2] = a;
        inputs.x[(row + i) * 2 + 1] = b;
        inputs.id[row + i] = id;
      }
    },
    ({ outputs }, row, size) => [...outputs.sum.subarray(row, row + size)],
    options,
  );
}

async function code(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "ok";
  } catch (error) {
    return error instanceof BatcherError ? error.code : String(error);
  }
}

/** Lets everything that other ends of the ring have to do be done: as many turns of the event loop as are certainly enough. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i += 1) {
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }
}

describe("a ring", () => {
  test("gives each caller the outputs of its own rows, over several batches and producers", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 8, slots: 2 });
    const producers = [new RingProducer(ring), new RingProducer(ring)];
    const consumer = new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 0 });
    const served = consumer.serve(run);
    const results = await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        submit(
          producers[i % 2] as RingProducer<Schema>,
          Array.from({ length: 1 + (i % 5) }, (__, j) => [i, j / 2, 1000 * i] as const),
        ),
      ),
    );
    for (const [i, sums] of results.entries()) {
      expect(sums).toEqual(Array.from({ length: 1 + (i % 5) }, (_, j) => i + j / 2 + 1000 * i));
    }
    drainRing(ring);
    await served;
    expect(consumer.stats().batchedItems).toBe(100);
    expect(consumer.stats().batchedSize).toBe(results.flat().length);
    expect(producers.map((producer) => producer.stats().completedItems)).toEqual([50, 50]);
  });

  test("packs what fits into one batch, and pads it", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4 });
    const producer = new RingProducer(ring);
    const seen: [number, number, number, string][] = [];
    const results = [3, 1, 2, 3].map((size) =>
      submit(
        producer,
        Array.from({ length: size }, () => [1, 2, 3] as const),
      ),
    );
    const consumer = new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 0, allowedBatchSizes: [1, 2, 4] });
    const served = consumer.serve((batch) => {
      seen.push([batch.items, batch.size, batch.paddedSize, batch.flushReason]);
      run(batch);
    });
    await Promise.all(results);
    expect(seen).toEqual([
      [2, 4, 4, "full"],
      [1, 2, 2, "full"],
      [1, 3, 4, "timeout"],
    ]);
    expect(consumer.stats()).toMatchObject({ batchedSize: 9, paddedSize: 10, batchedItems: 4 });
    closeRing(ring);
    await served;
  });

  test("has rows for the padding of a full batch, and takes no more items for that", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 3, paddingRows: 1 });
    const producer = new RingProducer(ring);
    const seen: [number, number, number, string][] = [];
    const results = [2, 1, 1].map((size) =>
      submit(
        producer,
        Array.from({ length: size }, () => [1, 2, 3] as const),
      ),
    );
    expect(
      await code(
        submit(producer, [
          [0, 0, 0],
          [0, 0, 0],
          [0, 0, 0],
          [0, 0, 0],
        ]),
      ),
    ).toBe("too_large");
    const consumer = new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 0, allowedBatchSizes: [1, 2, 4] });
    const served = consumer.serve((batch) => {
      seen.push([batch.size, batch.paddedSize, batch.outputs.sum.length, batch.flushReason]);
      expect(batch.inputs.x.length).toBe(8);
      // As a device does that writes all of the padded batch: into nobody's rows but its own.
      batch.outputs.sum.fill(-1);
      run(batch);
    });
    expect(await Promise.all(results)).toEqual([[6, 6], [6], [6]]);
    expect(seen).toEqual([
      [3, 4, 4, "full"],
      [1, 1, 4, "timeout"],
    ]);
    expect(consumer.stats()).toMatchObject({ batchedSize: 4, paddedSize: 5 });
    closeRing(ring);
    await served;
  });

  test.each([
    [0, [1, 2], "maxBatchSize (3), received [1, 2]"],
    [0, [1, 4], "maxBatchSize (3), received [1, 4]"],
    [1, [2, 5], "one from maxBatchSize (3) to maxBatchSize + paddingRows (4), received [2, 5]"],
    [1, [3, 2, 4], "one from maxBatchSize (3) to maxBatchSize + paddingRows (4), received [3, 2, 4]"],
    [0, [], "maxBatchSize (3), received []"],
  ])("with %i rows for padding refuses the sizes %o", (paddingRows, allowedBatchSizes, message) => {
    const ring = createSharedRing({ schema, maxBatchSize: 3, paddingRows });
    expect(() => new RingConsumer(ring, { allowedBatchSizes })).toThrow(
      new BatcherError("invalid_options", `allowedBatchSizes: expected rising whole numbers that end with ${message}`),
    );
  });

  test("made for items alone runs each by itself, whatever waits, over several producers", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, itemsAlone: true, slots: 4 });
    const producers = [new RingProducer(ring), new RingProducer(ring)];
    const seen: [number, number, number, string][] = [];
    const results = Array.from({ length: 20 }, (_, i) =>
      submit(
        producers[i % 2] as RingProducer<Schema>,
        Array.from({ length: 1 + (i % 3) }, (__, j) => [i, j, 0] as const),
      ),
    );
    expect(producers.map((producer) => producer.stats().itemsInRing)).toEqual([2, 2]);
    const consumer = new RingConsumer(ring, { allowedBatchSizes: [1, 2, 4] });
    const served = consumer.serve((batch) => {
      seen.push([batch.items, batch.size, batch.paddedSize, batch.flushReason]);
      run(batch);
    });
    expect(await Promise.all(results)).toEqual(
      Array.from({ length: 20 }, (_, i) => Array.from({ length: 1 + (i % 3) }, (__, j) => i + j)),
    );
    expect(seen.toSorted((one, other) => one[1] - other[1])).toEqual([
      ...Array.from({ length: 7 }, () => [1, 1, 1, "full"]),
      ...Array.from({ length: 7 }, () => [1, 2, 2, "full"]),
      ...Array.from({ length: 6 }, () => [1, 3, 4, "full"]),
    ]);
    expect(consumer.stats()).toMatchObject({ batchedItems: 20, batchedSize: 39, paddedSize: 45 });
    expect(consumer.stats().batches.full).toBe(20);
    drainRing(ring);
    await served;
  });

  test("made for items alone runs none whose caller has left, and none of a producer that died before it said a size", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, itemsAlone: true });
    const producer = new RingProducer(ring);
    const controller = new AbortController();
    const left = code(
      submit(
        producer,
        [
          [1, 0, 0],
          [2, 0, 0],
        ],
        { signal: controller.signal },
      ),
    );
    controller.abort();
    expect(await left).toBe("cancelled");
    const doomed = join(new Int32Array(ring.control), shapeOf(ring));
    expect(reserve(new Int32Array(ring.control), shapeOf(ring), doomed, 1)).not.toBe(FULL);
    buryProducer(ring, doomed);
    const stays = submit(producer, [
      [3, 0, 0],
      [4, 0, 0],
    ]);
    const sizes: number[] = [];
    const consumer = new RingConsumer(ring);
    const served = consumer.serve((batch) => {
      sizes.push(batch.size);
      run(batch);
    });
    expect(await stays).toEqual([3, 4]);
    expect(sizes).toEqual([2]);
    expect(consumer.stats().abandonedBatches).toBe(2);
    closeRing(ring);
    await served;
  });

  test.each([
    [true, "window", "off, as the ring is made with itemsAlone, received window"],
    [true, new OffPolicy(), "off, as the ring is made with itemsAlone, received a policy of your own"],
    [false, "off", "window, adaptive or a FlushPolicy, as the ring is made without itemsAlone, received off"],
  ] as const)("whose itemsAlone is %s refuses the policy %o", (itemsAlone, policy, message) => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, itemsAlone });
    expect(() => new RingConsumer(ring, { policy })).toThrow(
      new BatcherError("invalid_options", `policy: expected ${message}`),
    );
  });

  test("lets items wait for room, in order, and refuses more than may wait", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const producer = new RingProducer(ring, { maxWaitingItems: 2 });
    const results = [0, 1, 2, 3, 4].map((i) => submit(producer, [[i, 0, 0]]).catch((error: unknown) => error));
    expect(producer.stats()).toMatchObject({ itemsInRing: 2, waitingItems: 2, refusedItems: 1 });
    const order: number[] = [];
    const consumer = new RingConsumer(ring);
    const served = consumer.serve((batch) => {
      order.push(batch.inputs.x[0] as number);
      run(batch);
    });
    const settled = await Promise.all(results);
    expect(settled.slice(0, 4)).toEqual([[0], [1], [2], [3]]);
    expect(settled[4]).toMatchObject({
      code: "overloaded",
      limitName: "maxWaitingItems",
      limit: 2,
      current: 2,
    });
    expect(order).toEqual([0, 1, 2, 3]);
    closeRing(ring);
    await served;
  });

  test("fails the batch whose run throws, with the reason, and only that", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 2 });
    const producer = new RingProducer(ring);
    const bad = [submit(producer, [[1, 0, 0]]), submit(producer, [[2, 0, 0]])].map((p) =>
      p.catch((error: unknown) => error),
    );
    const good = submit(producer, [[3, 0, 0]]);
    let runs = 0;
    const consumer = new RingConsumer(ring);
    const served = consumer.serve((batch) => {
      runs += 1;
      if (runs === 1) {
        throw new Error("device on fire ☄");
      }
      run(batch);
    });
    for (const error of await Promise.all(bad)) {
      expect(error).toMatchObject({ code: "run_failed", message: "the run of the batch failed: device on fire ☄" });
    }
    expect(await good).toEqual([3]);
    expect(consumer.stats().failedBatches).toBe(1);
    closeRing(ring);
    await served;
  });

  test("does not run a batch that all callers have left, and rejects them at once", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 2 });
    const producer = new RingProducer(ring);
    const controller = new AbortController();
    const left = [1, 2].map((i) => code(submit(producer, [[i, 0, 0]], { signal: controller.signal })));
    controller.abort();
    expect(await Promise.all(left)).toEqual(["cancelled", "cancelled"]);
    const stays = submit(producer, [[3, 0, 0]]);
    let runs = 0;
    const consumer = new RingConsumer(ring);
    const served = consumer.serve((batch) => {
      runs += 1;
      run(batch);
    });
    expect(await stays).toEqual([3]);
    expect(runs).toBe(1);
    expect(consumer.stats().abandonedBatches).toBe(1);
    closeRing(ring);
    await served;
  });

  test("expires items in the ring and items that wait for room", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const producer = new RingProducer(ring);
    const results = [1, 2, 3].map((i) => code(submit(producer, [[i, 0, 0]], { deadlineMs: 1 })));
    expect(producer.stats()).toMatchObject({ itemsInRing: 2, waitingItems: 1 });
    expect(await Promise.all(results)).toEqual(["deadline_exceeded", "deadline_exceeded", "deadline_exceeded"]);
    expect(producer.stats()).toMatchObject({ itemsInRing: 0, waitingItems: 0, expiredItems: 3 });
  });

  test("drains: what is in is run, what comes is refused, and serve ends", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4 });
    const producer = new RingProducer(ring);
    const inside = submit(producer, [[1, 2, 3]]);
    drainRing(ring);
    expect(await code(submit(producer, [[1, 2, 3]]))).toBe("draining");
    const consumer = new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 1e6 });
    await consumer.serve(run);
    expect(await inside).toEqual([6]);
    expect(consumer.stats().batches.drain).toBe(1);
    expect(await code(submit(producer, [[1, 2, 3]]))).toBe("closed");
  });

  test.each([
    { how: "closed", end: closeRing, expected: "closed" },
    { how: "left by its consumer", end: buryConsumer, expected: "consumer_gone" },
  ])("that is $how rejects what is in it, what waits, and what comes", async ({ end, expected }) => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const producer = new RingProducer(ring);
    const results = [1, 2, 3].map((i) => code(submit(producer, [[i, 0, 0]])));
    end(ring);
    expect(await Promise.all(results)).toEqual([expected, expected, expected]);
    expect(await code(submit(producer, [[1, 0, 0]]))).toBe(expected);
  });

  test("goes on when a producer dies between reserve and commit", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, slots: 2 });
    const doomed = new RingPort(ring, { onPublished() {} });
    const producer = new RingProducer(ring);
    expect(doomed.reserve(2)).not.toBe(FULL);
    const result = submit(producer, [[1, 2, 3]]);
    const consumer = new RingConsumer(ring);
    const sizes: number[] = [];
    const served = consumer.serve((batch) => {
      sizes.push(batch.size);
      run(batch);
    });
    let settled = false;
    void result.then(() => (settled = true));
    await turns();
    expect(settled).toBe(false);
    buryProducer(ring, doomed.id);
    expect(await result).toEqual([6]);
    expect(sizes).toEqual([3]);
    // The slot comes round again though the dead never released it.
    for (let i = 0; i < 5; i += 1) {
      expect(await submit(producer, [[i, 0, 0]])).toEqual([i]);
    }
    closeRing(ring);
    await served;
  });

  test("goes on when a producer leaves with items in it", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const leaver = new RingProducer(ring);
    const producer = new RingProducer(ring);
    const left = [1, 2, 3].map((i) => code(submit(leaver, [[i, 0, 0]])));
    leaver.leave();
    expect(await Promise.all(left)).toEqual(["closed", "closed", "closed"]);
    const result = submit(producer, [[4, 0, 0]]);
    const consumer = new RingConsumer(ring);
    const served = consumer.serve(run);
    expect(await result).toEqual([4]);
    expect(await code(submit(leaver, [[5, 0, 0]]))).toBe("closed");
    closeRing(ring);
    await served;
  });

  test.each([
    { looks: true, told: ["published"] },
    { looks: false, told: [] },
  ])(
    "results that are there at the end of the tick are taken at once iff the consumer looks, too: $looks",
    async ({ looks, told }) => {
      const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
      const control = new Int32Array(ring.control);
      const shape = shapeOf(ring);
      tellLooks(control, looks);
      const port = new RingPort(ring, { onPublished: () => seen.push("published") }, { spinMicros: 1000 });
      const seen: string[] = [];
      port.commit(port.reserve(1), 1);
      close(control, shape, 0);
      publish(control, shape, 0, takeParticipants(control, shape, 0), STATUS_OK);
      await Promise.resolve();
      expect(seen).toEqual(told);
      await turns();
      expect(seen).toEqual(["published"]);
      port.leave();
    },
  );

  test("that ends gives what was published before, whatever its port hears of first, and nothing after the end", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const control = new Int32Array(ring.control);
    const told: string[] = [];
    const port = new RingPort(
      ring,
      {
        onPublished: (slot) => told.push(`published ${slot}`),
        onRoom: () => told.push("room"),
        onEnded: ({ code: reason }) => told.push(reason),
      },
      { spinMicros: 0 },
    );
    port.commit(port.reserve(1), 1);
    port.commit(port.reserve(1), 1);
    expect(port.reserve(1)).toBe(FULL);
    port.awaitRoom();
    await turns();
    // As if it were just now looking for the first batch: that it is published wakes nobody.
    Atomics.store(control, slotAt(shapeOf(ring), 0) + PUBLISHED, 1);
    closeRing(ring);
    await turns();
    expect(told).toEqual(["published 0", "closed"]);
    publish(control, shapeOf(ring), 1, takeParticipants(control, shapeOf(ring), 1), STATUS_OK);
    await turns();
    expect(told).toEqual(["published 0", "closed"]);
  });

  describe("whose policy would wait for more", () => {
    /** Waits ten minutes, and takes a run to last 40 s: one that is due within 50 s is in a hurry. */
    const patient: FlushPolicy = {
      decide: ({ nowMs }) => ({
        flush: false,
        untilMs: nowMs + 600_000,
        untilItems: Infinity,
        untilSize: Infinity,
        runMs: 40_000,
      }),
      arrived() {},
      answered() {},
    };
    const IN_A_HURRY_MS = 49_000;
    const IN_NO_HURRY_MS = 3_600_000;

    test("runs a batch with an item whose deadline it would else miss", async () => {
      const ring = createSharedRing({ schema, maxBatchSize: 8 });
      const producer = new RingProducer(ring);
      const results = [undefined, IN_NO_HURRY_MS, IN_A_HURRY_MS].map((deadlineMs) =>
        submit(producer, [[1, 2, 3]], { deadlineMs }),
      );
      const consumer = new RingConsumer(ring, { policy: patient });
      const served = consumer.serve(run);
      expect(await Promise.all(results)).toEqual([[6], [6], [6]]);
      expect(consumer.stats().batches).toEqual({ full: 0, idle: 0, timeout: 0, deadline: 1, drain: 0 });
      closeRing(ring);
      await served;
    });

    test("is woken by an item in a hurry, and by no other", async () => {
      const ring = createSharedRing({ schema, maxBatchSize: 8 });
      const control = new Int32Array(ring.control);
      const producer = new RingProducer(ring, { spinMicros: 0 });
      const consumer = new RingConsumer(ring, { policy: patient });
      const sizes: number[] = [];
      const served = consumer.serve((batch) => {
        sizes.push(batch.size);
        run(batch);
      });
      const results = [submit(producer, [[1, 0, 0]])];
      await turns();
      for (const deadlineMs of [undefined, IN_NO_HURRY_MS]) {
        results.push(submit(producer, [[1, 0, 0]], { deadlineMs }));
        // It sleeps on: nobody has called it.
        expect(Atomics.load(control, SLEEPING)).toBe(1);
        await turns();
      }
      expect(sizes).toEqual([]);
      results.push(submit(producer, [[1, 0, 0]], { deadlineMs: IN_A_HURRY_MS }));
      expect(Atomics.load(control, SLEEPING)).toBe(0);
      expect(await Promise.all(results)).toEqual([[1], [1], [1], [1]]);
      expect(sizes).toEqual([4]);
      expect(consumer.stats().batches.deadline).toBe(1);
      closeRing(ring);
      await served;
    });

    test("goes by no deadline of an earlier batch", async () => {
      const ring = createSharedRing({ schema, maxBatchSize: 8, slots: 2 });
      const producer = new RingProducer(ring);
      const consumer = new RingConsumer(ring, { policy: patient });
      const served = consumer.serve(run);
      for (let i = 0; i < 4; i += 1) {
        expect(await submit(producer, [[i, 0, 0]], { deadlineMs: IN_A_HURRY_MS })).toEqual([i]);
      }
      const left = code(submit(producer, [[5, 0, 0]]));
      await turns();
      expect(producer.stats().itemsInRing).toBe(1);
      closeRing(ring);
      expect(await left).toBe("closed");
      await served;
    });
  });

  test("says when to come again by the cost of a batch of what waits", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, slots: 2 });
    const producer = new RingProducer(ring, { maxWaitingItems: 2 });
    const fill = [4, 4].map((size) =>
      submit(
        producer,
        Array.from({ length: size }, () => [0, 0, 0] as const),
      ),
    );
    const wait = [1, 2].map((size) =>
      submit(
        producer,
        Array.from({ length: size }, () => [0, 0, 0] as const),
      ),
    );
    const refused = async (): Promise<unknown> =>
      submit(producer, [[0, 0, 0]]).catch((error: unknown) => (error as BatcherError).retryAfterMs);
    // Nothing is known yet.
    expect(await refused()).toBe(1);
    new RingHints(mapControl(ring).hints).tellCost(20, 1.5);
    expect(await refused()).toBe(25);
    const port = new RingPort(ring, { onPublished() {} });
    expect([0, 3, 4, 400].map((size) => port.retryAfterMs(size))).toEqual([20, 25, 26, 26]);
    const consumer = new RingConsumer(ring);
    const served = consumer.serve(run);
    await Promise.all([...fill, ...wait]);
    const { fixedMicros = 0, perSizeMicros = 0 } = consumer.stats().cost ?? {};
    expect(new RingHints(mapControl(ring).hints).runMs(3)).toBeCloseTo((fixedMicros + 3 * perSizeMicros) / 1000, 12);
    closeRing(ring);
    await served;
  });

  describe("that runs several batches at a time", () => {
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

  describe("producers' numbers", () => {
    /** Until the ring has none but this producer. */
    async function untilAlone(ring: SharedRing<Schema>, id: number): Promise<void> {
      while (Atomics.load(new Int32Array(ring.control), JOINED) !== 1 << id) {
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
      }
    }

    test("do not run out when one producer crashes and is replaced 10,000 times, whatever it was about", async () => {
      const ring = createSharedRing({ schema, maxBatchSize: 4, slots: 2, maxProducers: 2 });
      const { control, numbers } = mapControl(ring);
      const shape = shapeOf(ring);
      const stays = new RingProducer(ring);
      const consumer = new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 0 });
      const served = consumer.serve(run);
      let id = -1;
      for (let i = 0; i < 10_000; i += 1) {
        id = takeNumber(control, shape, numbers);
        expect(id).toBe(32 * i + 1);
        const result = i % 100 === 0 ? submit(stays, [[i, 1, 0]]) : undefined;
        const place = i % 3 === 0 ? FULL : reserve(control, shape, numberOf(id), 1 + (i % 2));
        if (place !== FULL && i % 3 === 1) {
          commit(control, shape, numberOf(id), slotOfPlace(place), 1 + (i % 2));
        }
        buryProducer(ring, id);
        if (result !== undefined) {
          expect(await result).toEqual([i + 1]);
        }
        await untilAlone(ring, stays.id);
      }
      drainRing(ring);
      await served;
      expect(consumer.stats().batchedItems).toBe(100);
    });

    test("are not taken from the next one by a second burial of the one before, or by a port that has left", async () => {
      const ring = createSharedRing({ schema, maxBatchSize: 4, maxProducers: 2 });
      const stays = new RingProducer(ring);
      const left = new RingPort(ring, { onPublished() {} });
      const place = left.reserve(1);
      const served = new RingConsumer(ring).serve(run);
      left.leave();
      expect(() => new RingProducer(ring)).toThrow("the ring has as many producers as it can: maxProducers is 2");
      await untilAlone(ring, stays.id);
      const next = new RingProducer(ring);
      expect([left.id, next.id]).toEqual([1, 33]);
      buryProducer(ring, left.id);
      left.commit(place, 1);
      expect(left.reserve(1)).toBe(FULL);
      expect(await submit(next, [[1, 2, 3]])).toEqual([6]);
      expect(Atomics.load(new Int32Array(ring.control), DEAD)).toBe(0);
      drainRing(ring);
      await served;
    });
  });

  test("fails the item alone whose write or read throws", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4 });
    const producer = new RingProducer(ring);
    const fail = (): never => {
      throw new Error("callback");
    };
    const bad = [producer.submit(1, fail, () => 0), producer.submit(1, () => {}, fail)].map((p) =>
      p.catch((error: unknown) => error),
    );
    const good = submit(producer, [[1, 1, 1]]);
    const served = new RingConsumer(ring).serve(run);
    expect(await good).toEqual([3]);
    const errors = await Promise.all(bad);
    expect(errors[0]).toMatchObject({ code: "invalid_argument", message: "write threw", cause: new Error("callback") });
    expect(errors[1]).toMatchObject({ code: "invalid_argument", message: "read threw", cause: new Error("callback") });
    closeRing(ring);
    await served;
  });

  test("refuses what it can never take", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, maxProducers: 1 });
    const producer = new RingProducer(ring);
    const nothing = (): void => {};
    expect(await code(producer.submit(5, nothing, nothing))).toBe("too_large");
    expect(await code(producer.submit(0, nothing, nothing))).toBe("invalid_argument");
    expect(await code(producer.submit(1, nothing, nothing, { deadlineMs: 0 }))).toBe("deadline_exceeded");
    expect(await code(producer.submit(1, nothing, nothing, { signal: AbortSignal.abort() }))).toBe("cancelled");
    expect(() => new RingProducer(ring)).toThrow("the ring has as many producers as it can: maxProducers is 1");
  });

  test.each([
    [{ maxBatchSize: 0 }, "maxBatchSize: expected a whole number from 1 to 32767, received 0"],
    [{ maxBatchSize: 32768 }, "maxBatchSize: expected a whole number from 1 to 32767, received 32768"],
    [{ paddingRows: -1 }, "paddingRows: expected a whole number from 0 to 1048576, received -1"],
    [{ slots: 3 }, "slots: expected a power of two from 2 to 1024, received 3"],
    [{ spareSlots: 0.5 }, "spareSlots: expected a whole number from 0 to 1024, received 0.5"],
    [{ maxProducers: 32 }, "maxProducers: expected a whole number from 1 to 31, received 32"],
  ])("of %o is refused", (options, message) => {
    expect(() => createSharedRing({ schema, maxBatchSize: 4, ...options })).toThrow(
      new BatcherError("invalid_options", `invalid ring options: ${message}`),
    );
  });

  test("with a bad field is refused", () => {
    expect(() =>
      createSharedRing({
        schema: { inputs: { x: { type: "text" as "uint8", shape: [0.5] } }, outputs: {} },
        maxBatchSize: 4,
      }),
    ).toThrow("x: expected a type of float64 | float32");
  });
});
