import { workerData } from "node:worker_threads";
import { attachEmbeddingStore } from "../src/index.ts";
import type { EmbeddingStoreHandle, PlanFeature } from "../src/index.ts";

const { handle, features, ids, batch, output } = workerData as {
  handle: EmbeddingStoreHandle;
  features: readonly PlanFeature[];
  ids: Int32Array;
  batch: number;
  output: Float32Array;
};
const store = attachEmbeddingStore(handle);
store.plan(features).gather(ids, batch, output, 0);
store.close();
