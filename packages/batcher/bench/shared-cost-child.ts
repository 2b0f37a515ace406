import { parentPort, workerData } from "node:worker_threads";
import type { RingPortOptions, SharedRing } from "@dlrm/batcher/shared";
import { RingConsumer } from "@dlrm/batcher/shared";
import type { COST_SCHEMA } from "./shared-cost.ts";

const { ring, options, runMicros } = workerData as {
  readonly ring: SharedRing<typeof COST_SCHEMA>;
  readonly options: RingPortOptions;
  /** What a run sleeps. */
  readonly runMicros: number;
};
const nothing = new Int32Array(new SharedArrayBuffer(4));
// Batches are as large as the ring's, so each is sent when it is full.
parentPort?.postMessage("ready");
new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 1e6, ...options }).serveBlocking(
  ({ inputs, outputs, size }) => {
    if (runMicros > 0) {
      Atomics.wait(nothing, 0, 0, runMicros / 1000);
    }
    for (let row = 0; row < size; row += 1) {
      outputs.y[row] = (inputs.x[row] as number) + 1;
    }
  },
);
