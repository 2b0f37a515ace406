/** The process of `LoadProcess`. */
import { runLoad } from "@dlrm/loadgen";
import type { LoadTask } from "./load-options.ts";
import { runTask } from "./run-task.ts";

await runTask((task: LoadTask, onProgress) => runLoad({ ...task, onProgress }));
