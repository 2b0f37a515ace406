import path from "node:path";
import { AcceleratorError, findPjrtDevice, findPjrtPlugin, openDevice } from "@dlrm/accelerator";
import { DEVICE_NAMES, isDeviceName, isPjrtDevice, type DeviceName } from "./server-options.ts";
import { ServerError } from "./server-error.ts";

export type DeviceAvailability = { readonly available: true } | { readonly available: false; readonly missing: string };

/**
 * Whether this machine has what a device needs, and if not, what is missing. Nothing is left open. A PJRT plugin is asked for its
 * device in a child process, which can take some seconds.
 */
export async function deviceAvailability(device: DeviceName): Promise<DeviceAvailability> {
  if (device === "simulated") return { available: true };
  try {
    if (isPjrtDevice(device)) {
      await findPjrtDevice(device === "pjrt" ? (await findPjrtPlugin()).pluginPath : device.slice("pjrt:".length));
      return { available: true };
    }
    // The runtime is loaded before the model is looked for, which is not there.
    const modelPath = path.join(import.meta.dirname, "no-such-model.onnx");
    await (await openDevice({ kind: device, modelPath, buckets: [1] })).close();
    return { available: true };
  } catch (error) {
    if (error instanceof AcceleratorError && error.code === "model_not_found") return { available: true };
    return { available: false, missing: error instanceof Error ? error.message : String(error) };
  }
}

/** What runs the dense network on a platform; `pjrt` is whatever plugin is found: libtpu, JAX's CUDA plugin. */
const PLATFORM_DEVICES = { cpu: "onnxruntime", cuda: "pjrt", sim: "simulated", tpu: "pjrt" } as const;

/** The device `named`, or else the platform's own. Throws `invalid_options` if it is no device's name. */
export function platformDevice(platform: keyof typeof PLATFORM_DEVICES, named?: string): DeviceName {
  if (named === undefined) return PLATFORM_DEVICES[platform];
  if (isDeviceName(named)) return named;
  throw new ServerError(
    "invalid_options",
    `device must be one of ${DEVICE_NAMES.join(", ")}, got ${JSON.stringify(named)}`,
  );
}
