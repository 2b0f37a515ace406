import type { LoadProgress } from "@dlrm/loadgen";
import { acceleratorGauges, type Gauge, type Monitor, MonitorError, startMonitor } from "@dlrm/monitor";
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
  const server = monitorOf(serverPid, acceleratorGauges());
  const load = new LoadProcess({
    load: task,
    cpus: clientCpus,
    taskset,
    guard,
    logFile,
    signal,
    onProgress: (progress) => {
      // By the first report every load process is at work.
      if (strays === undefined && taskset !== undefined && load.pid !== undefined) {
        strays = checkPinning(load.pid, clientCpus).strays;
      }
      request.onProgress(progress);
    },
  });
  const client = load.pid === undefined ? undefined : monitorOf(load.pid);
  try {
    const result = await load.result;
    return { load: result, server: server?.stop(), client: client?.stop(), strays: strays ?? [] };
  } finally {
    server?.stop();
    client?.stop();
  }
};

/** Undefined where there is nothing to watch: on other systems than Linux, or if the process has ended. */
function monitorOf(pid: number, gauges: readonly Gauge[] = []): Monitor | undefined {
  try {
    return startMonitor({ pid, threads: true, gauges });
  } catch (error) {
    for (const gauge of gauges) gauge.close?.();
    if (error instanceof MonitorError && error.code !== "invalid_options") return undefined;
    throw error;
  }
}
