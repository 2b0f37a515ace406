/** The device's thread: runs one batch at a time, so that the event loop that serves requests is not held up. */
import { parentPort, workerData } from "node:worker_threads";
import type { DeviceSettings, FromDevice, SlotBuffers, ToDevice } from "./device-messages.ts";
import { OnnxRunner } from "./onnx-runner.ts";
import { SimulatedRunner } from "./simulated-runner.ts";

/** Fills the scores of the first `batch` examples. */
export interface Runner {
  run(buffers: SlotBuffers, batch: number): Promise<void>;
}

const settings = workerData as DeviceSettings;
const runner: Runner = settings.kind === "simulated" ? new SimulatedRunner(settings) : await OnnxRunner.open(settings);
const slots: SlotBuffers[] = [];
let last: Promise<void> = Promise.resolve();

function tell(message: FromDevice): void {
  parentPort?.postMessage(message);
}

async function run(slot: number, batch: number): Promise<void> {
  try {
    await runner.run(slots[slot] as SlotBuffers, batch);
    tell({ kind: "done", slot });
  } catch (error) {
    tell({ kind: "done", slot, error: String(error) });
  }
}

parentPort?.on("message", (message: ToDevice) => {
  if (message.kind === "slot") slots[message.slot] = message.buffers;
  else if (message.kind === "run") last = last.then(() => run(message.slot, message.batch));
  else process.exit(0);
});
tell({ kind: "ready" });
