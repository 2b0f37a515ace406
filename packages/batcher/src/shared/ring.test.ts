import { describe, expect, test, vi } from "vitest";
import { OffPolicy } from "../flush-policy.ts";
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
  slotViews,
} from "./index.ts";
import { shapeOf } from "./ring-memory.ts";
import {
  close,
  join,
  publish,
  PUBLISHED,
  reserve,
  slotAt,
  STATUS_OK,
  takeParticipants,
  tellLooks,
} from "./ring-protocol.ts";
import type { Schema } from "../../test/ring-sums.ts";
import { code, run, schema, submit, turns } from "../../test/ring-sums.ts";

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

  test("answers what is over, and has its room again, when the next item comes: without a turn of the event loop", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const producer = new RingProducer(ring, { spinMicros: 0 });
    const first = [submit(producer, [[1, 2, 3]]), submit(producer, [[4, 5, 6]])];
    const waits = submit(producer, [[7, 8, 9]]);
    expect(producer.stats()).toMatchObject({ itemsInRing: 2, waitingItems: 1 });
    const words = new Int32Array(ring.control);
    const shape = shapeOf(ring);
    const slots = slotViews(ring);
    /** What a consumer in another thread does meanwhile; all sums of the batch are its sequence. */
    const runInAnotherThread = (sequence: number): void => {
      close(words, shape, sequence);
      slots[sequence % 2]?.outputs.sum.fill(sequence);
      publish(words, shape, sequence, takeParticipants(words, shape, sequence % 2), STATUS_OK);
    };
    runInAnotherThread(0);
    runInAnotherThread(1);
    const last = submit(producer, [[10, 11, 12]]);
    expect(producer.stats()).toMatchObject({ completedItems: 2, itemsInRing: 2, waitingItems: 0 });
    expect(await Promise.all(first)).toEqual([[0], [1]]);
    runInAnotherThread(2);
    runInAnotherThread(3);
    expect(await Promise.all([waits, last])).toEqual([[2], [3]]);
    producer.leave();
  });

  test("answers all, in their order, where an item that waited for room submits another while it is written", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const producer = new RingProducer(ring, { spinMicros: 0, maxWaitingItems: 4 });
    const told: string[] = [];
    const all = Promise.withResolvers<void>();
    const put = (name: string, nested?: string): void => {
      const write = (): void => {
        if (nested !== undefined) {
          put(nested);
        }
      };
      void code(producer.submit(1, write, () => name)).then((outcome) => {
        told.push(`${name} ${outcome}`);
        if (told.length === 8) all.resolve();
      });
    };
    put("1");
    put("2");
    // As many as may wait: those that are written are taken out of the list to make room for what they submit.
    put("3", "7");
    put("4", "8");
    put("5");
    put("6");
    const served = new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 0 }).serve(run);
    await all.promise;
    expect(told).toEqual(["1", "2", "3", "4", "5", "6", "7", "8"].map((name) => `${name} ok`));
    expect(producer.stats()).toMatchObject({ submittedItems: 8, completedItems: 8, waitingItems: 0, itemsInRing: 0 });
    drainRing(ring);
    await served;
  });

  test("uses a slot again whose results a port failed to read", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 1, slots: 2 });
    const words = new Int32Array(ring.control);
    const shape = shapeOf(ring);
    const onPublished = vi.fn<(slot: number) => void>().mockImplementationOnce(() => {
      throw new Error("could not read");
    });
    const port = new RingPort(ring, { onPublished }, { spinMicros: 0 });
    for (const sequence of [0, 1, 2, 3, 4]) {
      const place = port.reserve(1);
      expect(port.slotOf(place)).toBe(sequence % 2);
      port.commit(place, 1);
      close(words, shape, sequence);
      publish(words, shape, sequence, takeParticipants(words, shape, sequence % 2), STATUS_OK);
      if (sequence === 0) expect(() => port.settlePublished()).toThrow("could not read");
      else port.settlePublished();
    }
    expect(onPublished.mock.calls.map(([slot]) => slot)).toEqual([0, 1, 0, 1, 0]);
    port.leave();
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
    [
      { maxProducer: 2 },
      "there is no option maxProducer, expected only schema, maxBatchSize, paddingRows, itemsAlone, slots, spareSlots, maxProducers",
    ],
  ])("of %o is refused", (options, message) => {
    expect(() => createSharedRing({ schema, maxBatchSize: 4, ...options })).toThrow(
      new BatcherError("invalid_options", `invalid ring options: ${message}`),
    );
  });

  test("is not joined with options that there are not", () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, maxProducers: 1 });
    const refused = (name: string, known: string): BatcherError =>
      new BatcherError("invalid_options", `there is no option ${name}, expected only ${known}`);
    const given = (name: string): object => ({ [name]: 1 });
    expect(() => new RingConsumer(ring, given("runTimeout"))).toThrow(
      refused(
        "runTimeout",
        "policy, batchTimeoutMicros, latencyBudgetMs, allowedBatchSizes, maxInFlightBatches, runTimeoutMs, spinMicros, hooks",
      ),
    );
    expect(() => new RingProducer(ring, given("maxWaiting"))).toThrow(
      refused("maxWaiting", "maxWaitingItems, spinMicros"),
    );
    const handlers = { onPublished: () => {} };
    expect(() => new RingPort(ring, handlers, given("spinMs"))).toThrow(refused("spinMs", "spinMicros"));
    // None of them has taken the one place for a producer.
    new RingProducer(ring, { maxWaitingItems: 1, spinMicros: 0 }).leave();
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
