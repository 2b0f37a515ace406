import { Worker } from "node:worker_threads";
import { createSharedRing, drainRing, FULL, RingPort } from "@dlrm/batcher/shared";

/** One float in, one float out: what is left is the ring's own cost. */
export const COST_SCHEMA = {
  inputs: { x: { type: "float32", shape: [1] } },
  outputs: { y: { type: "float32", shape: [1] } },
} as const;

export interface SharedCost {
  /** CPU microseconds an item, both threads together, with one item at a time. */
  readonly aloneMicros: number;
  /** The same in batches of 64. */
  readonly batchedMicros: number;
  /** From reserve to result, one item at a time, microseconds. */
  readonly aloneRoundTripMicros: number;
}

/** Measures a ring between this thread and a consumer thread that blocks. */
export async function measureSharedCost(batches: number): Promise<SharedCost> {
  const alone = await measure(batches, 1);
  const batched = await measure(batches, 64);
  return {
    aloneMicros: alone.cpuMicros,
    batchedMicros: batched.cpuMicros,
    aloneRoundTripMicros: alone.wallMicros,
  };
}

/** `items` of one row are submitted in one go, and the next when they are answered. */
async function measure(
  batches: number,
  items: number,
): Promise<{ readonly cpuMicros: number; readonly wallMicros: number }> {
  const ring = createSharedRing({ schema: COST_SCHEMA, maxBatchSize: items, slots: 4, maxProducers: 1 });
  const file = import.meta.url.endsWith(".ts") ? "./shared-cost-worker.ts" : "./shared-cost-worker.js";
  const worker = new Worker(new URL(file, import.meta.url), { workerData: ring, execArgv: process.execArgv });
  await new Promise((resolve) => {
    worker.once("message", resolve);
  });
  let done = 0;
  let cpu = process.cpuUsage();
  let startMs = performance.now();
  const warmup = Math.ceil(batches / 4);
  const result = await new Promise<{ cpuMicros: number; wallMicros: number }>((resolve, reject) => {
    const port = new RingPort(ring, {
      onPublished(slot) {
        const { y } = port.views(slot).outputs;
        for (let row = 0; row < items; row += 1) {
          if (y[row] !== row + 1) {
            reject(new Error(`row ${row} holds ${y[row]}`));
          }
        }
        done += 1;
        if (done === warmup) {
          cpu = process.cpuUsage();
          startMs = performance.now();
        } else if (done === warmup + batches) {
          const { user, system } = process.cpuUsage(cpu);
          const wallMs = performance.now() - startMs;
          resolve({ cpuMicros: (user + system) / (batches * items), wallMicros: (wallMs * 1000) / (batches * items) });
          return;
        }
        submit();
      },
    });
    const submit = (): void => {
      for (let i = 0; i < items; i += 1) {
        const place = port.reserve(1);
        if (place === FULL) {
          reject(new Error("the ring is full"));
          return;
        }
        const row = port.rowOf(place);
        port.views(port.slotOf(place)).inputs.x[row] = row;
        port.commit(place, 1);
      }
    };
    submit();
  });
  drainRing(ring);
  await worker.terminate();
  return result;
}
