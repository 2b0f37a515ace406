import { parentPort, workerData } from "node:worker_threads";
import type { SharedRing } from "@dlrm/batcher/shared";
import { RingProducer } from "@dlrm/batcher/shared";
import type { Schema } from "./ring-sums.ts";
import { submit } from "./ring-sums.ts";

// Submits without end, until its thread is terminated, wherever it is by then.
const producer = new RingProducer(workerData as SharedRing<Schema>, { spinMicros: 0 });
parentPort?.postMessage(producer.id);

async function submitForEver(size: number): Promise<never> {
  for (let i = 0; ; i += 1) {
    const rows = Array.from({ length: size }, (_, row) => [i, row, 1] as const);
    await submit(producer, rows, i % 3 === 0 ? { deadlineMs: 1000 } : {});
  }
}

await Promise.all([1, 2, 3, 1].map(submitForEver));
