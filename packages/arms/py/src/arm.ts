import type { Arm } from "@dlrm/arm-contract";
import { pythonArm } from "./python-arm.ts";

/** One CPython process: `grpc.server` with a pool of threads, NumPy for the embedding lookup, JAX for the dense network. */
export const arm: Arm = pythonArm({
  name: "py",
  title: "Python: one process, gRPC thread pool, NumPy, JAX",
  handlerThreads: 8,
});
