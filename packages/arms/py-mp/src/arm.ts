import type { Arm } from "@dlrm/arm-contract";
import { pythonArm } from "@dlrm/arm-py";

/**
 * Several CPython frontends share the port with SO_REUSEPORT, each with its own copy of the tables; one more process owns the
 * device and runs each request by itself. Between them are rings in shared memory.
 */
export const arm: Arm = pythonArm({
  name: "py-mp",
  title: "Python: several processes, one owns the device",
  handlerThreads: 8,
  multiProcess: true,
});
