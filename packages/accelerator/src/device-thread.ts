import { parentPort, workerData } from "node:worker_threads";
import type { Backend } from "./backend.ts";
import { CallRing } from "./call-ring.ts";
import type { ThreadSettings } from "./device-spec.ts";
import { AcceleratorError, toErrorRecord } from "./errors.ts";
import { OnnxRuntimeBackend } from "./onnxruntime-backend.ts";
import { PjrtBackend } from "./pjrt-backend.ts";
import { serveCalls } from "./serve-calls.ts";
import { SimulatedBackend } from "./simulated-backend.ts";
import type { CompiledMessage, OpeningMessage, ThreadData } from "./thread-protocol.ts";
import { wakesSoon } from "./thread-slice.ts";
import { warmUp } from "./warm-up.ts";

// The thread of one device: opens the backend, says so, then serves calls until it is told to close. It has no listener
// and no timer: while there is nothing to do it is blocked, and when it returns the thread ends.

function tell(message: OpeningMessage | CompiledMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
  parentPort?.postMessage(message);
}

function openBackend(
  settings: ThreadSettings,
  onCompiled: (bucket: number, done: number) => void,
): Backend<unknown> | Promise<Backend<unknown>> {
  switch (settings.kind) {
    case "onnxruntime":
      return OnnxRuntimeBackend.open(settings);
    case "pjrt":
      return PjrtBackend.open(settings, onCompiled);
    case "simulated":
      return new SimulatedBackend(settings);
  }
}

async function open(settings: ThreadSettings): Promise<{ backend: Backend<unknown>; ring: CallRing }> {
  // Programs are compiled one by one, models loaded whole.
  const compiled = settings.kind === "pjrt" ? settings.buckets.length : 0;
  const loaded = compiled + 1;
  const total = loaded + settings.buckets.length;
  const backend = await openBackend(settings, (bucket, done) => {
    tell({ type: "progress", progress: { phase: "compile", bucket, done, total } });
  });
  tell({ type: "progress", progress: { phase: "load", done: loaded, total } });
  try {
    const report = await warmUp(backend, {
      buckets: settings.buckets,
      budgetMs: settings.warmUpBudgetMs,
      onWarmed: (bucket, done) => {
        tell({ type: "progress", progress: { phase: "warm-up", bucket, done: loaded + done, total } });
      },
    });
    const { name, platform, inputs, outputs, precision, memory, inputTransfers } = backend;
    inputTransfers?.fill(0n);
    const ring = CallRing.allocate(settings.maxQueuedCalls, inputs.length + outputs.length);
    const { buffer, capacity } = ring;
    tell({
      type: "ready",
      name,
      platform,
      inputs,
      outputs,
      warmUp: report,
      precision,
      memory,
      inputTransfers,
      maxInFlight: backend.pipeline?.depth ?? 1,
      ring: { buffer, capacity },
    });
    return { backend, ring };
  } catch (error) {
    await backend.close();
    throw AcceleratorError.from(error, "open_failed", "warming up failed");
  }
}

const { settings, letters } = workerData as ThreadData;
try {
  const { backend, ring } = await open(settings);
  wakesSoon(backend.platform);
  await serveCalls(backend, ring, settings.buckets, letters, tell);
  await backend.close();
} catch (error) {
  tell({
    type: "failed",
    error: toErrorRecord(AcceleratorError.from(error, "open_failed", "the device can't be opened")),
  });
} finally {
  letters.close();
}
