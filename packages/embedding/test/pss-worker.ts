import { parentPort, workerData } from "node:worker_threads";
import { attachEmbeddingStore } from "../src/index.ts";
import type { EmbeddingStoreHandle } from "../src/index.ts";
import { readAllRows } from "./read-all-rows.ts";

const { handle } = workerData as { handle: EmbeddingStoreHandle };
const store = attachEmbeddingStore(handle);
readAllRows(store, "t");
// Keeps the tables in use until the test has looked.
parentPort?.once("message", () => store.close());
parentPort?.postMessage("ready");
