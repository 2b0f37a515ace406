import { parentPort, workerData } from "node:worker_threads";
import { attachEmbeddingStore } from "../src/index.ts";
import type { EmbeddingStoreHandle } from "../src/index.ts";

const { handle, lastEpoch, progress } = workerData as {
  handle: EmbeddingStoreHandle;
  lastEpoch: number;
  progress: Int32Array;
};
const store = attachEmbeddingStore(handle);
const plan = store.plan([
  { table: "t", hotSize: 2 },
  { table: "u", hotSize: 1 },
]);
const dim = store.tables[0]?.dim ?? 0;
const rows = store.tables[0]?.rows ?? 0;
// Rows far apart, the last one of the table among them.
const ids = Int32Array.of(0, rows - 1, 1);
const output = new Float32Array(plan.outputWidth);

/** What is wrong with what a gather gave, whose rows all hold one epoch; `last` is the epoch before. */
function problemOf(last: number): string | undefined {
  const pooled = output.subarray(0, dim);
  const [first = Number.NaN] = pooled;
  if (pooled.some((value) => value !== first)) return `a torn row: ${[...new Set(pooled)].join(", ")}`;
  const epoch = output[dim] ?? Number.NaN;
  if (first !== 2 * epoch) return `half an update: rows of epoch ${first / 2} beside epoch ${epoch}`;
  return epoch < last ? `epoch ${epoch} after ${last}` : undefined;
}

let epoch = 0;
let problem: string | undefined;
while (epoch < lastEpoch && problem === undefined) {
  plan.gather(ids, 1, output, 0);
  problem = problemOf(epoch);
  epoch = output[dim] ?? Number.NaN;
  Atomics.add(progress, 0, 1);
  Atomics.notify(progress, 0);
}
store.close();
parentPort?.postMessage(problem ?? "whole");
