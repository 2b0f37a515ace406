import type { Arm } from "@dlrm/arm-contract";
import { pythonArm } from "@dlrm/arm-py";

/**
 * One CPython process with a dynamic batcher in front of the lookup: a batch closes 1 ms after its oldest request, or at the
 * largest batch size.
 */
export const arm: Arm = pythonArm({
  name: "py-batch",
  title: "Python: one process, batches of up to 1 ms, NumPy, JAX",
  handlerThreads: 64,
  batchTimeoutMicros: 1000,
});
