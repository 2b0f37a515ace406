import type { Arm } from "@dlrm/arm-contract";
import { engineArm } from "@dlrm/arm-engine";

/** The engine with a batching window of 1 ms, as the reference's `xse-batch`. */
export const arm: Arm = engineArm({
  name: "engine-batch",
  title: "Engine: batches of up to 1 ms and 4096 examples",
  batching: "window",
  batchTimeoutMicros: 1000,
});
