import { fork } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { LoadProgress, LoadResult } from "@dlrm/loadgen";
import { BenchError } from "./bench-error.ts";
import { formatCpuList } from "./cpu-list.ts";
import type { LoadTask } from "./load-options.ts";
import { type ProcessGuard, signalGroup } from "./process-guard.ts";
import { describeExit, type Exit } from "./server-process.ts";

/** What runs in the load process. */
export const LOAD_ENTRY: string = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./load-child.ts" : "./load-child.js", import.meta.url),
);

/** What the load process tells: at most one of `result` and `error`, last. */
export type LoadMessage =
  | { readonly kind: "progress"; readonly progress: LoadProgress }
  | { readonly kind: "result"; readonly result: LoadResult }
  | { readonly kind: "error"; readonly message: string };

export interface LoadProcessOptions {
  readonly load: LoadTask;
  /** CPUs that the process and all it starts are pinned to, where taskset is there. */
  readonly cpus: readonly number[];
  readonly taskset: string | undefined;
  readonly guard: ProcessGuard;
  /** Appended to. */
  readonly logFile: string;
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: LoadProgress) => void;
}

/** A load generator in a process group of its own, so that it can be pinned, watched and ended apart from the bench. */
export class LoadProcess {
  /** Undefined if it could not be started. */
  readonly pid: number | undefined;
  readonly result: Promise<LoadResult>;

  constructor({ load, cpus, taskset, guard, logFile, signal, onProgress }: LoadProcessOptions) {
    const log = openSync(logFile, "a");
    const child = fork(LOAD_ENTRY, [JSON.stringify(load)], {
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
    this.result = new Promise<LoadResult>((resolve, reject) => {
      let outcome: LoadMessage | undefined;
      const stop = (): void => {
        if (pid !== undefined) signalGroup(pid, "SIGKILL");
      };
      const settle = (exit: Exit): void => {
        signal.removeEventListener("abort", stop);
        stop();
        if (pid !== undefined) guard.remove(pid);
        if (outcome?.kind === "result") resolve(outcome.result);
        else if (signal.aborted) reject(BenchError.from(signal.reason, "interrupted"));
        else if (outcome?.kind === "error") reject(new BenchError("load_failed", outcome.message));
        else reject(new BenchError("load_failed", `the load generator ended without a result: ${describeExit(exit)}`));
      };
      child.on("message", (message: LoadMessage) => {
        if (message.kind === "progress") onProgress?.(message.progress);
        else outcome = message;
      });
      child.once("error", (error) => settle({ kind: "not_started", reason: error.message }));
      child.once("close", (code, name) =>
        settle(code === null ? { kind: "signal", signal: String(name) } : { kind: "code", code }),
      );
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
    });
  }
}
