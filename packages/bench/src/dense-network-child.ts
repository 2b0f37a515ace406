/** The process of `measureDenseNetwork`. */
import { compareDenseNetwork } from "./compare-dense-network.ts";
import { runTask } from "./run-task.ts";

await runTask(compareDenseNetwork);
