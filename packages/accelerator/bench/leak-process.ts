import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { openDevice, type DeviceSpec } from "@dlrm/accelerator";

// `node --expose-gc leak-process.ts CASE CYCLES MODEL`: opens and closes so often, and prints how much memory this process had meanwhile.

export type LeakCase = "empty_thread" | "simulated" | "bare_onnxruntime_thread" | "onnxruntime";

const SAMPLES = 40;

/** A thread that opens and releases a session as onnxruntime-node's documentation says, and nothing of ours. */
const BARE_SESSION = `
  const { workerData: modelPath } = require("node:worker_threads");
  const ort = require("onnxruntime-node");
  const options = { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 4 };
  ort.InferenceSession.create(modelPath, options).then((session) => session.release());
`;

function runThread(program: string, workerData?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    new Worker(program, { eval: true, workerData }).once("error", reject).once("exit", () => resolve());
  });
}

async function openAndClose(spec: DeviceSpec): Promise<void> {
  const device = await openDevice(spec);
  await device.close();
}

/** What this process alone holds, without what is only not collected yet. */
function privateBytes(): number {
  globalThis.gc!();
  const rollup = readFileSync("/proc/self/smaps_rollup", "utf8");
  return Number(/^Private_Dirty:\s+(\d+) kB/m.exec(rollup)?.[1]) * 1024;
}

const [which = "", cycleCount = "", modelPath = ""] = process.argv.slice(2);
const cases: Readonly<Record<LeakCase, () => Promise<void>>> = {
  empty_thread: () => runThread("0"),
  simulated: () => openAndClose({ kind: "simulated", buckets: [1], w: new Float32Array(13), v: new Float32Array(26) }),
  bare_onnxruntime_thread: () => runThread(BARE_SESSION, modelPath),
  onnxruntime: () => openAndClose({ kind: "onnxruntime", modelPath, buckets: [1], numThreads: 1 }),
};
const cycle = cases[which as LeakCase];
const cycles = Number(cycleCount);
const samples: { readonly cycle: number; readonly bytes: number }[] = [];
for (let done = 1; done <= cycles; done++) {
  await cycle();
  if (done % Math.ceil(cycles / SAMPLES) === 0) samples.push({ cycle: done, bytes: privateBytes() });
}
console.log(JSON.stringify(samples));
