import { performance } from "node:perf_hooks";
import { parentPort, receiveMessageOnPort, workerData, type MessagePort } from "node:worker_threads";
import type { Backend } from "./backend.ts";
import { TensorTable } from "./buffer-table.ts";
import { CALL_DONE, CALL_FAILED, CallRing } from "./call-ring.ts";
import type { ThreadSettings } from "./device-spec.ts";
import { AcceleratorError, toErrorRecord } from "./errors.ts";
import { OnnxRuntimeBackend } from "./onnxruntime-backend.ts";
import { PjrtBackend } from "./pjrt-backend.ts";
import { SimulatedBackend } from "./simulated-backend.ts";
import type { LetterToCaller, LetterToThread, OpeningMessage, ThreadData } from "./thread-protocol.ts";
import { warmUp } from "./warm-up.ts";

// The thread of one device: opens the backend, says so, then serves calls until it is told to close. It has no listener
// and no timer: while there is nothing to do it is blocked, and when it returns the thread ends.

function tell(message: OpeningMessage): void {
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
    const { name, platform, inputs, outputs, precision, inputTransfers } = backend;
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
      inputTransfers,
      ring: { buffer, capacity },
    });
    return { backend, ring };
  } catch (error) {
    await backend.close();
    throw AcceleratorError.from(error, "open_failed", "warming up failed");
  }
}

/** Runs calls in order until the caller wants to close and none is left. */
async function serve(
  backend: Backend<unknown>,
  ring: CallRing,
  buckets: readonly number[],
  letters: MessagePort,
): Promise<void> {
  const table = new TensorTable(backend, buckets);
  const inputs = backend.inputs.map((): unknown => undefined);
  const outputs = backend.outputs.map((): unknown => undefined);
  let lettersRead = 0;
  let next = 0;

  const readLetters = (): void => {
    for (const announced = ring.letters; lettersRead !== announced; lettersRead = (lettersRead + 1) | 0) {
      const letter: LetterToThread | undefined = receiveMessageOnPort(letters)?.message;
      if (letter?.type === "buffer") table.add(letter.id, letter.buffer);
      else if (letter?.type === "forget") table.forget(letter.id);
    }
  };

  const tensorOf = (slot: number, tensor: number, bucketIndex: number): unknown =>
    table.tensor(tensor, ring.bufferIdOf(slot, tensor), ring.offsetOf(slot, tensor), bucketIndex);

  const runCall = async (slot: number): Promise<void> => {
    const began = performance.now();
    try {
      const bucketIndex = ring.bucketIndexOf(slot);
      for (let i = 0; i < inputs.length; i++) inputs[i] = tensorOf(slot, i, bucketIndex);
      for (let i = 0; i < outputs.length; i++) outputs[i] = tensorOf(slot, inputs.length + i, bucketIndex);
      const running = backend.run(buckets[bucketIndex]!, inputs, outputs);
      if (running) await running;
      ring.finish(slot, CALL_DONE, (performance.now() - began) * 1000);
    } catch (error) {
      const failure = AcceleratorError.from(error, "run_failed", `${backend.name} failed`);
      const letter: LetterToCaller = { type: "failure", error: toErrorRecord(failure) };
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
      letters.postMessage(letter);
      ring.finish(slot, CALL_FAILED, (performance.now() - began) * 1000);
    }
  };

  for (;;) {
    const bell = ring.bell;
    // Before the letters: a call seen here then has its buffers among the letters read below.
    const submitted = ring.submitted;
    readLetters();
    if (submitted !== next) {
      const slot = ring.slotOf(next);
      if (ring.begin(slot)) await runCall(slot);
      next = (next + 1) | 0;
      ring.complete();
    } else if (ring.closing) {
      // A call may have come after `submitted` was read; none comes after the wish to close.
      if (ring.submitted === next) return;
    } else {
      ring.waitForBell(bell);
    }
  }
}

const { settings, letters } = workerData as ThreadData;
try {
  const { backend, ring } = await open(settings);
  await serve(backend, ring, settings.buckets, letters);
  await backend.close();
} catch (error) {
  tell({
    type: "failed",
    error: toErrorRecord(AcceleratorError.from(error, "open_failed", "the device can't be opened")),
  });
} finally {
  letters.close();
}
