import path from "node:path";
import { AcceleratorError, openDevice } from "@dlrm/accelerator";
import type { DeviceKind } from "./server-options.ts";

export type DeviceAvailability = { readonly available: true } | { readonly available: false; readonly missing: string };

/** Whether this machine has what a device needs, and if not, what is missing. Nothing is left open. */
export async function deviceAvailability(kind: DeviceKind): Promise<DeviceAvailability> {
  if (kind === "simulated") return { available: true };
  try {
    // The runtime is loaded before the model is looked for, which is not there.
    const modelPath = path.join(import.meta.dirname, "no-such-model.onnx");
    await (await openDevice({ kind, modelPath, buckets: [1] })).close();
    return { available: true };
  } catch (error) {
    if (error instanceof AcceleratorError && error.code === "model_not_found") return { available: true };
    return { available: false, missing: error instanceof Error ? error.message : String(error) };
  }
}
