import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { rolldown } from "rolldown";
import { describe, expect, test } from "vitest";
import { numberOf, takeNumber } from "../src/shared/producer-numbers.ts";
import type { SharedRing } from "../src/shared/index.ts";
import {
  buryProducer,
  createSharedRing,
  drainRing,
  FULL,
  RingConsumer,
  RingPort,
  RingProducer,
} from "../src/shared/index.ts";
import { mapControl, shapeOf } from "../src/shared/ring-memory.ts";
import { commit, DEAD, JOINED, reserve, slotOfPlace } from "../src/shared/ring-protocol.ts";
import type { Schema } from "./ring-sums.ts";
import { run, schema, submit } from "./ring-sums.ts";

/**
 * A module and what it imports as JavaScript in one: V8 may abort the process when a thread is terminated in which Node strips types
 * (https://github.com/nodejs/node/issues/64500).
 */
async function bundled(module: URL): Promise<URL> {
  const bundle = await rolldown({
    input: fileURLToPath(module),
    platform: "node",
    resolve: { conditionNames: ["@dlrm/source", "import"] },
  });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  return new URL(`data:text/javascript,${encodeURIComponent(output[0].code)}`);
}

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

  test("are used again by threads in place of those that were terminated, and the others get their results", async () => {
    const ring = createSharedRing({ schema, maxBatchSize: 4, slots: 2, maxProducers: 2 });
    const stays = new RingProducer(ring);
    const served = new RingConsumer(ring).serve(run);
    const crashWorker = await bundled(new URL("./ring-crash-worker.ts", import.meta.url));
    for (let crash = 0; crash < 12; crash += 1) {
      const worker = new Worker(crashWorker, { workerData: ring });
      const [id] = (await once(worker, "message")) as [number];
      expect(id).toBe(32 * crash + 1);
      for (let i = 0; i < 20; i += 1) {
        const results = await Promise.all([
          submit(stays, [[i, crash, 0]]),
          submit(stays, [
            [i, 1, 1],
            [i, 2, 2],
          ]),
        ]);
        expect(results).toEqual([[i + crash], [i + 2, i + 4]]);
      }
      const answered = submit(stays, [[1, 2, 3]]);
      await worker.terminate();
      buryProducer(ring, id);
      expect(await answered).toEqual([6]);
      await untilAlone(ring, stays.id);
    }
    drainRing(ring);
    await served;
  });
});
