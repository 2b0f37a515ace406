import type { Arm } from "@dlrm/arm-contract";
import { pythonArm } from "@dlrm/arm-py";

/**
 * Several CPython frontends share the port with SO_REUSEPORT, each with its own copy of the tables and a dynamic batcher (1 ms);
 * one more process owns the device and merges what frontends have ready, without waiting for more.
 */
export const arm: Arm = pythonArm({
  name: "py-mp-batch",
  title: "Python: several processes, a batcher in each, one owns the device",
  handlerThreads: 64,
  multiProcess: true,
  batchTimeoutMicros: 1000,
});
