import { fork } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { BenchError, type BenchErrorCode } from "./bench-error.ts";
import { formatCpuList } from "./cpu-list.ts";
import { type ProcessGuard, signalGroup } from "./process-guard.ts";
import { describeExit, type Exit } from "./server-process.ts";

/** What the process of a task tells: at most one of `result` and `error`, last. */
export type TaskMessage<Result, Progress> =
  | { readonly kind: "progress"; readonly progress: Progress }
  | { readonly kind: "result"; readonly result: Result }
  | { readonly kind: "error"; readonly message: string };

/** Where and how long a task runs. */
export interface TaskPlace<Progress> {
  /** CPUs that the process and all it starts are pinned to, where taskset is there. */
  readonly cpus: readonly number[];
  readonly taskset: string | undefined;
  readonly guard: ProcessGuard;
  /** Appended to. */
  readonly logFile: string;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

export interface TaskProcessOptions<Progress> extends TaskPlace<Progress> {
  /** The module that the process runs, which calls `runTask`. */
  readonly entry: string;
  /** Goes there as JSON. */
  readonly task: object;
  /** Subject of sentences on what went wrong. */
  readonly name: string;
  readonly failure: BenchErrorCode;
}

/** Work in a process group of its own, so that it can be pinned, watched and ended apart from the bench. */
export class TaskProcess<Result, Progress> {
  /** Undefined if it could not be started. */
  readonly pid: number | undefined;
  /** Settles once no process of the group is left. */
  readonly result: Promise<Result>;

  constructor(options: TaskProcessOptions<Progress>) {
    const { entry, task, name, failure, cpus, taskset, guard, logFile, signal, onProgress } = options;
    const log = openSync(logFile, "a");
    const child = fork(entry, [JSON.stringify(task)], {
      // Between here and Node stands taskset, which leaves the channel's descriptor alone.
      ...(taskset === undefined
        ? {}
        : { execPath: taskset, execArgv: ["-c", formatCpuList(cpus), process.execPath, ...process.execArgv] }),
      stdio: ["ignore", log, log, "ipc"],
      serialization: "advanced",
      detached: true,
    });
    closeSync(log);
    this.pid = child.pid;
    const { pid } = child;
    if (pid !== undefined) guard.add(pid);
    this.result = new Promise<Result>((resolve, reject) => {
      let outcome: TaskMessage<Result, Progress> | undefined;
      const stop = (): void => {
        if (pid !== undefined) signalGroup(pid, "SIGKILL");
      };
      const settle = (exit: Exit): void => {
        signal.removeEventListener("abort", stop);
        stop();
        if (pid !== undefined) guard.remove(pid);
        if (outcome?.kind === "result") resolve(outcome.result);
        else if (signal.aborted) reject(BenchError.from(signal.reason, "interrupted"));
        else if (outcome?.kind === "error") reject(new BenchError(failure, outcome.message));
        else reject(new BenchError(failure, `${name} ended without a result: ${describeExit(exit)}`));
      };
      child.on("message", (message: TaskMessage<Result, Progress>) => {
        if (message.kind === "progress") onProgress?.(message.progress);
        else outcome = message;
      });
      child.once("error", (error) => settle({ kind: "not_started", reason: error.message }));
      child.once("close", (code, signalName) =>
        settle(code === null ? { kind: "signal", signal: String(signalName) } : { kind: "code", code }),
      );
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
    });
  }
}
