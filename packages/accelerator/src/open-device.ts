import type { Device } from "./device.ts";
import { checkOnnxRuntimeSpec, checkReferenceSpec, checkSimulatedSpec, type DeviceSpec } from "./device-spec.ts";
import { AcceleratorError } from "./errors.ts";
import { openThreadDevice } from "./open-thread-device.ts";
import { ReferenceDevice } from "./reference-device.ts";

/**
 * Opens a device, warmed up and ready for calls. It holds the process open until it is closed. Rejects with an
 * `AcceleratorError`; then nothing is left open.
 */
export async function openDevice(spec: DeviceSpec): Promise<Device> {
  switch (spec.kind) {
    case "onnxruntime":
      return openThreadDevice(checkOnnxRuntimeSpec(spec), { onProgress: spec.onProgress, signal: spec.signal });
    case "simulated":
      return openThreadDevice(checkSimulatedSpec(spec), { onProgress: spec.onProgress, signal: spec.signal });
    case "reference":
      return new ReferenceDevice(checkReferenceSpec(spec));
    default: {
      const { kind } = spec satisfies never as { kind?: unknown };
      throw new AcceleratorError(
        "invalid_spec",
        `kind must be "onnxruntime", "simulated" or "reference", got ${JSON.stringify(kind) ?? String(kind)}`,
      );
    }
  }
}
