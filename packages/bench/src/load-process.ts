import { fileURLToPath } from "node:url";
import type { LoadProgress, LoadResult } from "@dlrm/loadgen";
import type { LoadTask } from "./load-options.ts";
import { type TaskPlace, TaskProcess } from "./task-process.ts";

/** What runs in the load process. */
export const LOAD_ENTRY: string = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./load-child.ts" : "./load-child.js", import.meta.url),
);

export interface LoadProcessOptions extends TaskPlace<LoadProgress> {
  readonly load: LoadTask;
}

/** A load generator in a process of its own. */
export class LoadProcess extends TaskProcess<LoadResult, LoadProgress> {
  constructor({ load, ...place }: LoadProcessOptions) {
    super({ ...place, entry: LOAD_ENTRY, task: load, name: "the load generator", failure: "load_failed" });
  }
}
