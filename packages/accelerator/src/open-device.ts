import type { Device } from "./device.ts";
import {
  checkOnnxRuntimeSpec,
  checkReferenceSpec,
  checkSimulatedSpec,
  type CallerSettings,
  type DeviceSpec,
  type OnnxRuntimeSpec,
  type SimulatedSpec,
  type ThreadSettings,
} from "./device-spec.ts";
import { AcceleratorError } from "./errors.ts";
import { openThreadDevice } from "./open-thread-device.ts";
import { probePjrtPlugin } from "./pjrt-probe.ts";
import { checkPjrtSpec, type PjrtSpec } from "./pjrt-spec.ts";
import { ReferenceDevice } from "./reference-device.ts";
import { ReopeningDevice } from "./reopening-device.ts";

/**
 * Opens a device, warmed up and ready for calls. It holds the process open until it is closed. Rejects with an
 * `AcceleratorError`; then nothing is left open.
 */
export async function openDevice(spec: DeviceSpec): Promise<Device> {
  switch (spec.kind) {
    case "onnxruntime":
      return openOnThread(checkOnnxRuntimeSpec(spec), spec);
    case "pjrt":
      return openPjrt(spec);
    case "simulated":
      return openOnThread(checkSimulatedSpec(spec), spec);
    case "reference":
      return new ReferenceDevice(checkReferenceSpec(spec));
    default: {
      const { kind } = spec satisfies never as { kind?: unknown };
      throw new AcceleratorError(
        "invalid_spec",
        `kind must be "onnxruntime", "pjrt", "simulated" or "reference", got ${JSON.stringify(kind) ?? String(kind)}`,
      );
    }
  }
}

async function openPjrt(spec: PjrtSpec): Promise<Device> {
  const { probeTimeoutMs, ...settings } = checkPjrtSpec(spec);
  if (probeTimeoutMs > 0) await probePjrtPlugin(settings, { timeoutMs: probeTimeoutMs, signal: spec.signal });
  return openOnThread(settings, spec);
}

async function openOnThread(
  settings: ThreadSettings & CallerSettings,
  { onProgress, signal, reopen }: OnnxRuntimeSpec | PjrtSpec | SimulatedSpec,
): Promise<Device> {
  const device = await openThreadDevice(settings, { onProgress, signal });
  if (reopen === undefined) return device;
  return new ReopeningDevice(device, (closing) => openThreadDevice(settings, { onProgress, signal: closing }), reopen);
}
