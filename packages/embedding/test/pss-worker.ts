import { parentPort, workerData } from "node:worker_threads";
import { attachEmbeddingStore } from "../src/index.ts";
import type { EmbeddingStoreHandle } from "../src/index.ts";

const { handle } = workerData as { handle: EmbeddingStoreHandle };
const store = attachEmbeddingStore(handle);
const rows = store.tables[0]?.rows ?? 0;
const plan = store.plan([{ table: "t", hotSize: 64 }]);
const output = new Float32Array(plan.outputWidth);
// Every row is read.
for (let first = 0; first + 64 <= rows; first += 64) {
  plan.gather(
    Int32Array.from({ length: 64 }, (_, at) => first + at),
    1,
    output,
    0,
  );
}
// Keeps the tables in use until the test has looked.
parentPort?.once("message", () => store.close());
parentPort?.postMessage("ready");
