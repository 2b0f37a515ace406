import { availableParallelism } from "node:os";
import type { Device } from "@dlrm/accelerator";

/**
 * Whether the device computes on the only CPU there is, which requests are read on, too. Then a batch that is sent before all that has
 * come is read keeps the rest from being read: with 16 callers such batches had 1.8 examples, and the server half of the throughput.
 */
export function sharesOnlyCpu({ platform }: Pick<Device, "platform">, cpus: number = availableParallelism()): boolean {
  return platform === "cpu" && cpus === 1;
}
