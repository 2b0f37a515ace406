import type { LoadProgress } from "@dlrm/loadgen";
import { startMonitor } from "@dlrm/monitor";
import type { LoadTask } from "./load-options.ts";
import { LoadProcess } from "./load-process.ts";
import { checkPinning } from "./pinning.ts";
import type { Measurement } from "./point-repeat.ts";
import type { ProcessGuard } from "./process-guard.ts";

export interface MeasureRequest {
  readonly task: LoadTask;
  readonly serverPid: number;
  readonly clientCpus: readonly number[];
  readonly taskset: string | undefined;
  readonly guard: ProcessGuard;
  readonly logFile: string;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: LoadProgress) => void;
}

export type Measure = (request: MeasureRequest) => Promise<Measurement>;

/** Runs load in a process of its own, with a monitor on either side. */
export const measure: Measure = async (request) => {
  const { task, serverPid, clientCpus, taskset, guard, logFile, signal } = request;
  let strays: readonly string[] | undefined;
  const server = startMonitor({ pid: serverPid });
  try {
    const process = new LoadProcess({
      load: task,
      cpus: clientCpus,
      taskset,
      guard,
      logFile,
      signal,
      onProgress: (progress) => {
        // By the first report every load process is at work.
        if (strays === undefined && taskset !== undefined && process.pid !== undefined) {
          strays = checkPinning(process.pid, clientCpus).strays;
        }
        request.onProgress(progress);
      },
    });
    const client = process.pid === undefined ? undefined : startMonitor({ pid: process.pid });
    try {
      const load = await process.result;
      return { load, server: await server.stop(), client: await client?.stop(), strays: strays ?? [] };
    } finally {
      await client?.stop();
    }
  } finally {
    await server.stop();
  }
};
