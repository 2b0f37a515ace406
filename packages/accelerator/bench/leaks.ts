import { Worker } from "node:worker_threads";
import { openDevice, type SimulatedSpec } from "@dlrm/accelerator";
import { figure, type Figure } from "./figures.ts";

// Memory that opening and closing leaves behind, and how much of that plain threads and plain onnxruntime-node leave.

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

/** Once the first tenth of the cycles has filled what is kept. */
async function leak(name: string, cycles: number, openAndClose: () => Promise<void>): Promise<Figure> {
  const rss: number[] = [];
  const tenth = Math.ceil(cycles / 10);
  for (let cycle = 1; cycle <= cycles; cycle++) {
    await openAndClose();
    if (cycle % tenth === 0) rss.push(process.memoryUsage.rss());
  }
  console.error(
    `${name}: ${cycles} opened and closed, MiB ${rss.map((bytes) => (bytes / 2 ** 20).toFixed(0)).join(" ")}`,
  );
  const grown = rss.slice(1).map((bytes, i) => (bytes - rss[i]!) / tenth);
  return figure(`${name}_open_close_rss_bytes`, "bytes a cycle", grown);
}

/** In this order, as memory that an earlier case gave back would hide what a smaller one leaves. */
export async function leakFigures(cycles: number, simulated: SimulatedSpec, modelPath: string): Promise<Figure[]> {
  return [
    await leak("empty_thread", cycles, () => runThread("0")),
    await leak("simulated", cycles, async () => {
      const device = await openDevice(simulated);
      await device.close();
    }),
    await leak("onnxruntime", cycles, async () => {
      const device = await openDevice({ kind: "onnxruntime", modelPath, buckets: [1], numThreads: 1 });
      await device.close();
    }),
    await leak("bare_onnxruntime_thread", cycles, () => runThread(BARE_SESSION, modelPath)),
  ];
}
