import { MessageChannel, Worker } from "node:worker_threads";
import type { Device, OpenProgress } from "./device.ts";
import type { CallerSettings, ThreadSettings } from "./device-spec.ts";
import { endThread } from "./end-thread.ts";
import { AcceleratorError, fromErrorRecord } from "./errors.ts";
import { turnOnnxRuntimeTelemetryOff } from "./onnxruntime-telemetry.ts";
import { ThreadDevice } from "./thread-device.ts";
import type { OpeningMessage, ThreadData, ThreadReady } from "./thread-protocol.ts";

// The file that stands beside this one, in the form this one is in: source or built.
const THREAD_URL = new URL(
  import.meta.url.endsWith(".ts") ? "./device-thread.ts" : "./device-thread.js",
  import.meta.url,
);

const MAX_TIMER_MS = 2 ** 31 - 1;

interface OpenHooks {
  readonly onProgress: ((progress: OpenProgress) => void) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Starts the thread of a device and waits until it is ready. If that fails, nothing is left behind. */
export async function openThreadDevice(settings: ThreadSettings & CallerSettings, hooks: OpenHooks): Promise<Device> {
  const { callTimeoutMs, openTimeoutMs, ...threadSettings } = settings;
  if (hooks.signal?.aborted) throw openingCancelled(hooks.signal);
  const { port1: letters, port2: threadLetters } = new MessageChannel();
  const workerData: ThreadData = { settings: threadSettings, letters: threadLetters };
  if (settings.kind === "onnxruntime") turnOnnxRuntimeTelemetryOff();
  const worker = new Worker(THREAD_URL, { workerData, transferList: [threadLetters], name: `${settings.kind} device` });
  try {
    const ready = await untilReady(worker, openTimeoutMs, hooks);
    const { kind, buckets, maxQueuedCalls } = settings;
    const compileTimeoutMs = openTimeoutMs;
    return new ThreadDevice({ kind, buckets, maxQueuedCalls, callTimeoutMs, compileTimeoutMs, worker, letters, ready });
  } catch (error) {
    letters.close();
    await endThread(worker);
    throw error;
  }
}

function untilReady(worker: Worker, openTimeoutMs: number, { onProgress, signal }: OpenHooks): Promise<ThreadReady> {
  return new Promise<ThreadReady>((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const settle = (action: () => void): void => {
      clearTimeout(timer);
      // Not those of Node itself, without which later listeners would hear nothing.
      for (const name of ["message", "error", "exit"]) worker.removeAllListeners(name);
      signal?.removeEventListener("abort", onAbort);
      action();
    };
    const onAbort = (): void => {
      if (signal) settle(() => reject(openingCancelled(signal)));
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    if (openTimeoutMs <= MAX_TIMER_MS) {
      timer = setTimeout(() => {
        const message = `the device was not ready within openTimeoutMs, ${openTimeoutMs} ms, and was given up`;
        settle(() => reject(new AcceleratorError("open_failed", message)));
      }, openTimeoutMs);
    }
    worker.on("message", (message: OpeningMessage) => {
      switch (message.type) {
        case "progress":
          try {
            onProgress?.(message.progress);
          } catch (error) {
            settle(() => reject(AcceleratorError.from(error, "open_failed", "onProgress threw")));
          }
          break;
        case "failed":
          settle(() => reject(fromErrorRecord(message.error)));
          break;
        case "ready":
          settle(() => resolve(message));
          break;
      }
    });
    worker.on("error", (error) => {
      settle(() => reject(AcceleratorError.from(error, "open_failed", "the device's thread failed while opening")));
    });
    worker.on("exit", (exitCode) => {
      settle(() =>
        reject(new AcceleratorError("open_failed", `the device's thread ended with code ${exitCode} while opening`)),
      );
    });
  });
}

function openingCancelled(signal: AbortSignal): AcceleratorError {
  return new AcceleratorError("cancelled", "opening the device was cancelled", { cause: signal.reason });
}
