import { openSession } from "../src/kernel-choice.ts";
import type { KernelSession } from "../src/kernel.ts";
import type { TableSource } from "../src/table.ts";
import { loadNativeBinding } from "../src/native-binding.ts";
import type { KernelChoice } from "../src/index.ts";

const forced = process.env["DLRM_EMBEDDING_KERNEL"] as KernelChoice | "" | undefined;

/** Kernels that run on this machine, or the one that `DLRM_EMBEDDING_KERNEL` names. */
export const KERNELS_TO_TEST: readonly KernelChoice[] = forced
  ? [forced]
  : ["reference", "wasm", ...("binding" in loadNativeBinding() ? (["native"] as const) : [])];

/** A session of `kernel` over tables given in memory. */
export async function openSessionOf(kernel: KernelChoice, tables: readonly TableSource[]): Promise<KernelSession> {
  return (await openSession(kernel, tables, { concurrency: 2, mapFiles: false, numaInterleave: false })).session;
}
