import { availableParallelism } from "node:os";
import type { ResolvedOptions } from "./server-options.ts";

/**
 * Whether the device computes on the only CPU there is, which requests are read on, too. Then a batch that is sent before all that has
 * come is read keeps the rest from being read: with 16 callers such batches had 1.8 examples, and the server half of the throughput.
 */
export function sharesOnlyCpu(device: ResolvedOptions["device"], cpus: number = availableParallelism()): boolean {
  return device === "onnxruntime" && cpus === 1;
}
