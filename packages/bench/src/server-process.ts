import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { ArmCommand } from "@dlrm/arm-contract";
import { BenchError } from "./bench-error.ts";
import { type ProcessGuard, signalGroup } from "./process-guard.ts";

/** How a process ended. */
export type Exit =
  | { readonly kind: "code"; readonly code: number }
  | { readonly kind: "signal"; readonly signal: string }
  | { readonly kind: "not_started"; readonly reason: string };

export interface StopOutcome {
  readonly exit: Exit;
  /** What was not as it should be, if anything: the reader of the report is told. */
  readonly warning?: string;
}

export interface ServerProcessOptions {
  readonly command: ArmCommand;
  /** Output of the process and of its children. */
  readonly logFile: string;
  readonly guard: ProcessGuard;
}

/**
 * A server in a process group of its own.
 *
 * Invariants: `exited` settles once, never rejects; after `stop` no process of the group is left.
 */
export class ServerProcess {
  readonly exited: Promise<Exit>;
  readonly logFile: string;
  readonly #child: ChildProcess;
  readonly #guard: ProcessGuard;
  #exit: Exit | undefined;

  constructor({ command, logFile, guard }: ServerProcessOptions) {
    this.logFile = logFile;
    this.#guard = guard;
    const log = openSync(logFile, "w");
    try {
      this.#child = spawn(command.file, [...command.args], {
        stdio: ["ignore", log, log],
        detached: true,
        env: { ...process.env, ...command.env },
      });
    } finally {
      closeSync(log);
    }
    if (this.#child.pid !== undefined) guard.add(this.#child.pid);
    this.exited = new Promise((resolve) => {
      const settle = (exit: Exit): void => {
        this.#exit ??= exit;
        resolve(this.#exit);
      };
      this.#child.once("error", (error) => settle({ kind: "not_started", reason: error.message }));
      this.#child.once("exit", (code, signal) =>
        settle(code === null ? { kind: "signal", signal: String(signal) } : { kind: "code", code }),
      );
    });
  }

  /** Undefined if the process could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  get ended(): Exit | undefined {
    return this.#exit;
  }

  /** Settles as `work` does, or rejects with `arm_failed` as soon as the process ends; `work` is told to give up then. */
  async during<Result>(doing: string, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const giveUp = new AbortController();
    const failure = (exit: Exit, cause?: unknown): BenchError =>
      new BenchError("arm_failed", `the server ended during ${doing}: ${describeExit(exit)}`, { cause });
    const ended = this.exited.then((exit): never => {
      const error = failure(exit);
      giveUp.abort(error);
      throw error;
    });
    try {
      return await Promise.race([work(giveUp.signal), ended]);
    } catch (error) {
      // What the work met is then only a consequence.
      throw this.#exit === undefined ? error : failure(this.#exit, error);
    }
  }

  /** Waits for the end at most `timeoutMs`, and no longer than until `signal` is aborted. @returns whether it has ended. */
  async endsWithin(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return this.#exit !== undefined;
    let stop = (): void => undefined;
    const stopped = new Promise<void>((resolve) => (stop = resolve));
    signal.addEventListener("abort", stop, { once: true });
    try {
      await realDrainClock(Promise.race([this.exited, stopped]), timeoutMs);
      return this.#exit !== undefined;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  /**
   * SIGTERM, then SIGKILL after `drainMs`; then SIGKILL to whatever of the group is left.
   *
   * @param clock starts the drain time; a parameter so that tests need not wait.
   */
  async stop(drainMs: number, clock: DrainClock = realDrainClock): Promise<StopOutcome> {
    const { pid } = this;
    if (pid === undefined) return { exit: await this.exited };
    const endedBefore = this.#exit;
    if (endedBefore === undefined) this.#child.kill("SIGTERM");
    const drained = await clock(this.exited, drainMs);
    if (!drained) signalGroup(pid, "SIGKILL");
    const exit = await this.exited;
    const orphans = signalGroup(pid, "SIGKILL");
    this.#guard.remove(pid);
    if (!drained) return { exit, warning: `did not end within ${drainMs / 1000} s of SIGTERM, and was killed` };
    if (endedBefore !== undefined) return { exit };
    if (orphans) return { exit, warning: "left processes behind after SIGTERM, which were killed" };
    if (exit.kind === "code" && exit.code === 0) return { exit };
    return { exit, warning: `did not end cleanly on SIGTERM: ${describeExit(exit)}` };
  }

  /** The last lines of the log, at most `count` of them and 16 KiB. */
  logTail(count = 20): string[] {
    return readTail(this.logFile, count);
  }
}

/** Whether `ended` settles within `timeoutMs`. */
export type DrainClock = (ended: Promise<unknown>, timeoutMs: number) => Promise<boolean>;

const realDrainClock: DrainClock = async (ended, timeoutMs) => {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), timeoutMs);
  });
  try {
    return await Promise.race([ended.then(() => true), timeout]);
  } finally {
    clearTimeout(timer);
  }
};

export function describeExit(exit: Exit): string {
  switch (exit.kind) {
    case "code":
      return `exit code ${exit.code}`;
    case "signal":
      return `signal ${exit.signal}`;
    case "not_started":
      return `it could not be started: ${exit.reason}`;
  }
}

const TAIL_BYTES = 16 * 1024;

function readTail(file: string, count: number): string[] {
  let handle: number;
  try {
    handle = openSync(file, "r");
  } catch {
    return [];
  }
  try {
    const { size } = fstatSync(handle);
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES));
    const read = readSync(handle, bytes, 0, bytes.length, size - bytes.length);
    const lines = bytes.subarray(0, read).toString("utf8").trimEnd().split("\n");
    return lines.slice(-count).filter((line, index) => line !== "" || index > 0);
  } finally {
    closeSync(handle);
  }
}
