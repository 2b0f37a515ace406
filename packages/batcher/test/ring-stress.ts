import { Worker } from "node:worker_threads";
import type { RingConsumerStats, RingProducerStats, SharedRing } from "@dlrm/batcher/shared";
import { createSharedRing, drainRing } from "@dlrm/batcher/shared";

export const STRESS_SCHEMA = {
  inputs: { key: { type: "int32", shape: [] }, x: { type: "int32", shape: [4] } },
  outputs: { y: { type: "int32", shape: [] } },
} as const;

export interface StressTask {
  readonly role: "producer" | "consumer";
  readonly ring: SharedRing<typeof STRESS_SCHEMA>;
  /** Of one producer. */
  readonly items: number;
  readonly seed: number;
  /** Items that a producer has submitted and not had answered, at most. */
  readonly outstanding: number;
  readonly maxSize: number;
  readonly cancelShare: number;
  readonly expireShare: number;
  /** Above 1 runs end in any order, on an event loop; else the consumer blocks. */
  readonly maxInFlightBatches: number;
}

export interface ConsumerReport {
  readonly role: "consumer";
  readonly stats: RingConsumerStats;
}

export interface ProducerReport {
  readonly role: "producer";
  readonly outcomes: Readonly<Record<string, number>>;
  /** Results that were not the item's own. */
  readonly wrong: number;
  readonly settled: number;
  /** Heap in use after a forced collection: at the start, at an eighth of the way, at two, and so on up to seven. */
  readonly heapBytes: readonly number[];
  readonly stats: RingProducerStats;
}

/** What the consumer makes of a row. */
export function stressOutput(key: number, x: ArrayLike<number>, row: number): number {
  let hash = key;
  for (let j = 0; j < 4; j += 1) {
    hash = Math.imul(hash ^ (x[row * 4 + j] as number), 0x01000193);
  }
  return hash;
}

/** Runs producers and a consumer, a thread each, until all items have an outcome. */
export async function stressRing(options: {
  readonly producers: number;
  readonly items: number;
  readonly outstanding: number;
  readonly maxSize: number;
  readonly maxBatchSize: number;
  readonly slots: number;
  readonly cancelShare: number;
  readonly expireShare: number;
  readonly seed: number;
  readonly maxInFlightBatches?: number;
  /** Bound of each thread's young generation, which V8 else lets grow step by step to 128 MiB, whatever is allocated. */
  readonly maxYoungGenerationSizeMb?: number;
}): Promise<{ readonly producers: readonly ProducerReport[]; readonly consumer: ConsumerReport }> {
  const ring = createSharedRing({
    schema: STRESS_SCHEMA,
    maxBatchSize: options.maxBatchSize,
    slots: options.slots,
    maxProducers: options.producers,
  });
  const start = <Report>(role: StressTask["role"], seed: number): Promise<Report> =>
    new Promise((resolve, reject) => {
      const workerData: StressTask = {
        maxInFlightBatches: 1,
        ...options,
        role,
        ring,
        seed,
        items: Math.ceil(options.items / options.producers),
      };
      const file = import.meta.url.endsWith(".ts") ? "./ring-stress-worker.ts" : "./ring-stress-worker.js";
      const { maxYoungGenerationSizeMb } = options;
      const worker = new Worker(new URL(file, import.meta.url), {
        workerData,
        execArgv: process.execArgv,
        ...(maxYoungGenerationSizeMb === undefined ? {} : { resourceLimits: { maxYoungGenerationSizeMb } }),
      });
      worker.on("message", resolve);
      worker.on("error", reject);
      worker.on("exit", (code) => reject(new Error(`the ${role} ended with ${code}`)));
    });
  const consumer = start<ConsumerReport>("consumer", 0);
  const producers = await Promise.all(
    Array.from({ length: options.producers }, (_, i) => start<ProducerReport>("producer", options.seed + i)),
  );
  drainRing(ring);
  return { producers, consumer: await consumer };
}
