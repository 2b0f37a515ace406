import { fileURLToPath } from "node:url";
import type { DenseNetworkRow } from "@dlrm/reporter";
import type { DenseNetworkOutcome, DenseNetworkTask } from "./dense-network-task.ts";
import { checkPinning } from "./pinning.ts";
import { type TaskPlace, TaskProcess } from "./task-process.ts";
import { withinLimit } from "./time-limit.ts";

/** What runs in the process. */
export const DENSE_NETWORK_ENTRY: string = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./dense-network-child.ts" : "./dense-network-child.js", import.meta.url),
);

/** For all devices together; one that hangs gives up later by itself. */
const LIMIT_S = 300;
const FAILURE = { name: "the comparison of devices", failure: "dense_network_failed" } as const;

export interface DenseNetworkRequest extends TaskPlace<string> {
  readonly task: DenseNetworkTask;
}

export type MeasureDenseNetwork = (request: DenseNetworkRequest) => Promise<DenseNetworkOutcome>;

/** Runs the dense network on each device of this CPU, in a process of its own: PJRT's plugins stay where they were loaded. */
export const measureDenseNetwork: MeasureDenseNetwork = async ({ task, signal, onProgress, ...place }) => {
  let strays: readonly string[] = [];
  const rows = await withinLimit({ limitS: LIMIT_S, signal, ...FAILURE }, (limited) => {
    const running = new TaskProcess<DenseNetworkRow[], string>({
      ...place,
      ...FAILURE,
      entry: DENSE_NETWORK_ENTRY,
      task,
      signal: limited,
      onProgress: (doing) => {
        // When the last is told of, the threads of all devices are there.
        if (place.taskset !== undefined && running.pid !== undefined) {
          strays = checkPinning(running.pid, place.cpus).strays;
        }
        onProgress?.(doing);
      },
    });
    return running.result;
  });
  return { rows, warnings: strays.slice(0, 1).map((stray) => `the devices compared were not pinned: ${stray}`) };
};
