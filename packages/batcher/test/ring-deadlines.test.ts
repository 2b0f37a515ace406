import { describe, expect, test, vi } from "vitest";
import { systemClock } from "../src/clock.ts";
import type { FlushPolicy } from "../src/flush-policy.ts";
import type { BatcherError } from "../src/shared/index.ts";
import { closeRing, createSharedRing, RingConsumer, RingPort, RingProducer } from "../src/shared/index.ts";
import { RingHints } from "../src/shared/ring-hints.ts";
import { numberOf, takeNumber } from "../src/shared/producer-numbers.ts";
import type { SlotMemory } from "../src/shared/ring-memory.ts";
import { mapControl, mapMemories, shapeOf, sharedNowMs } from "../src/shared/ring-memory.ts";
import { commit, reserve, SLEEPING, slotOfPlace } from "../src/shared/ring-protocol.ts";
import type { Schema } from "./ring-sums.ts";
import { code, run, schema, submit, turns } from "./ring-sums.ts";

describe("a ring whose policy would wait for more", () => {
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

  test("finds an item in a hurry behind one that was not said when it went to sleep", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 8 });
    const { control, numbers } = mapControl(ring);
    const shape = shapeOf(ring);
    const slow = numberOf(takeNumber(control, shape, numbers));
    const producer = new RingProducer(ring, { spinMicros: 0 });
    const consumer = new RingConsumer(ring, { policy: patient });
    // Its thread stands still between taking a row and saying what for.
    const place = reserve(control, shape, slow, 1);
    const hurried = submit(producer, [[1, 0, 0]], { deadlineMs: IN_A_HURRY_MS });
    const served = consumer.serve(run);
    await turns();
    expect(Atomics.load(control, SLEEPING)).toBe(1);
    const { sizes, arrivals, deadlines } = mapMemories(ring)[slotOfPlace(place)] as SlotMemory<Schema>;
    arrivals[0] = sharedNowMs();
    deadlines[0] = Infinity;
    Atomics.store(sizes, 0, 1);
    commit(control, shape, slow, slotOfPlace(place), 1);
    expect(Atomics.load(control, SLEEPING)).toBe(1);
    // As the slow one would, had it been the ring's own end that said it.
    const another = submit(producer, [[2, 0, 0]]);
    expect(Atomics.load(control, SLEEPING)).toBe(0);
    expect(await Promise.all([hurried, another])).toEqual([[1], [2]]);
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

test("a full ring says when to come again by the cost of a batch of what waits", async () => {
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

test("a producer whose items with deadlines are all out keeps no timer for them", async () => {
  const schedule = vi.spyOn(systemClock, "schedule");
  const cancel = vi.spyOn(systemClock, "cancel");
  try {
    const ring = createSharedRing({ schema, maxBatchSize: 8 });
    const producer = new RingProducer(ring);
    const served = new RingConsumer(ring).serve(run);
    expect(await submit(producer, [[1, 2, 3]], { deadlineMs: 3_600_000 })).toEqual([6]);
    const timers = schedule.mock.calls.flatMap(([, delayMs], i) =>
      delayMs > 3_000_000 ? [schedule.mock.results[i]?.value as unknown] : [],
    );
    expect(timers).toHaveLength(1);
    expect(cancel).toHaveBeenCalledWith(timers[0]);
    closeRing(ring);
    await served;
  } finally {
    schedule.mockRestore();
    cancel.mockRestore();
  }
});
