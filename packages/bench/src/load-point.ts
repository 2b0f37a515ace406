import type { LoadMode } from "@dlrm/loadgen";
import type { ModelSpec } from "@dlrm/model";
import type { PointKey } from "@dlrm/reporter";
import { BenchError } from "./bench-error.ts";
import { HOST } from "./commands.ts";
import { loadTask } from "./load-options.ts";
import type { Machine } from "./machine.ts";
import type { Measure } from "./measure.ts";
import type { LoadStep } from "./plan.ts";
import type { Measurement } from "./point-repeat.ts";
import type { ProcessGuard } from "./process-guard.ts";
import type { Progress } from "./progress.ts";
import type { RunningArm } from "./running-arm.ts";
import type { BenchSettings } from "./settings.ts";
import { withinLimit } from "./time-limit.ts";

/** For making requests and for last answers, beside warm-up and duration. */
const LOAD_GRACE_S = 180;

export interface LoadPointOptions {
  readonly key: PointKey;
  readonly step: LoadStep;
  readonly started: RunningArm;
  readonly settings: BenchSettings;
  readonly machine: Machine;
  readonly spec: ModelSpec;
  readonly measure: Measure;
  readonly guard: ProcessGuard;
  readonly progress: Progress;
  readonly logFile: string;
  readonly signal: AbortSignal;
}

/**
 * Loads a server that runs, and measures one repeat of a point.
 *
 * @throws BenchError `load_failed` if no result comes in time; `arm_failed` if the server ends.
 */
export async function loadPoint(options: LoadPointOptions): Promise<Measurement> {
  const { key, step, started, settings, machine, spec, measure, guard, progress, logFile, signal } = options;
  const task = loadTask(settings, machine, spec, step, loadMode(key), { host: HOST, port: started.port });
  const limitS = settings.warmupS + settings.durationS + LOAD_GRACE_S;
  return await withinLimit({ limitS, signal, name: "the load generator", failure: "load_failed" }, (limited) =>
    started.during("load", limited, (giveUp) => {
      const { pid } = started.server;
      if (pid === undefined) throw new BenchError("arm_failed", "the server was not started");
      return measure({
        task,
        serverPid: pid,
        clientCpus: settings.clientCpus,
        taskset: machine.taskset,
        guard,
        logFile,
        signal: giveUp,
        onProgress: ({ phase, leftS, examplesPerS, p99Ms, errors }) =>
          progress.update(
            `${phase}, ${leftS.toFixed(0)} s: ${Math.round(examplesPerS)} examples/s, p99 ${p99Ms?.toFixed(2) ?? "–"} ms, ${errors} errors`,
          ),
      });
    }),
  );
}

function loadMode({ concurrency, offeredRps }: PointKey): LoadMode {
  return offeredRps === null ? { kind: "closed", concurrency: concurrency ?? 1 } : { kind: "open", offeredRps };
}
