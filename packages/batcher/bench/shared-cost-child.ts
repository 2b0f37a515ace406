import { parentPort, workerData } from "node:worker_threads";
import type { RingPortOptions, SharedRing } from "@dlrm/batcher/shared";
import { RingConsumer } from "@dlrm/batcher/shared";
import type { COST_SCHEMA } from "./shared-cost.ts";

const { ring, options } = workerData as {
  readonly ring: SharedRing<typeof COST_SCHEMA>;
  readonly options: RingPortOptions;
};
// Batches are as large as the ring's, so each is sent when it is full.
parentPort?.postMessage("ready");
new RingConsumer(ring, { policy: "window", batchTimeoutMicros: 1e6, ...options }).serveBlocking(
  ({ inputs, outputs, size }) => {
    for (let row = 0; row < size; row += 1) {
      outputs.y[row] = (inputs.x[row] as number) + 1;
    }
  },
);
