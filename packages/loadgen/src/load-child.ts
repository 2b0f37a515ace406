import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { besideThis } from "./entry-file.ts";
import { LoadError } from "./load-error.ts";
import { inheritedNodeFlags } from "./node-flags.ts";
import type { FromProcess, ToProcess } from "./process-messages.ts";

/** How much of a load process's stderr an error message keeps. */
const STDERR_CHARS = 2000;

/** A running load process, seen from the parent. */
export class LoadChild {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  #stderr = "";
  #waiter:
    | { kind: FromProcess["kind"]; resolve: (message: FromProcess) => void; reject: (error: Error) => void }
    | undefined;
  #failure: LoadError | undefined;
  /** Told of everything that no one waits for. */
  onMessage: (message: FromProcess) => void = () => {};

  /** Starts a load process, on the CPUs of `cpus` by `taskset` when both are given. */
  constructor(pin: { readonly taskset: string; readonly cpus: string } | undefined) {
    const nodeArgs = inheritedNodeFlags(process.execArgv);
    // Pinned from its first instruction on: threads that Node starts early would escape a later taskset.
    const child = fork(fileURLToPath(besideThis(import.meta.url, "load-process")), [], {
      ...(pin === undefined
        ? { execArgv: nodeArgs }
        : { execPath: pin.taskset, execArgv: ["-c", pin.cpus, process.execPath, ...nodeArgs] }),
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_CHARS);
    });
    child.on("message", (message) => this.#take(message as FromProcess));
    this.#exited = new Promise((resolve) => {
      child.on("error", (error) => {
        this.#fail(new LoadError("process_failed", `a load process did not start: ${error.message}`, { cause: error }));
        resolve();
      });
      child.on("close", (code, signal) => {
        const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
        const output = this.#stderr.trim();
        const notPinned = pin !== undefined && output.startsWith("taskset: ");
        this.#fail(
          notPinned
            ? new LoadError(
                "pinning_failed",
                `the load processes cannot be held to CPUs ${pin.cpus}, are they there? (${output})`,
              )
            : new LoadError(
                "process_failed",
                `a load process ended ${how}${output === "" ? "" : `; its stderr:\n${output}`}`,
              ),
        );
        resolve();
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  send(message: ToProcess): void {
    // A process that is gone is told of by its exit.
    this.#child.send(message, () => {});
  }

  /** The next message of that kind; rejects when the process fails or ends first. */
  next<K extends FromProcess["kind"]>(kind: K): Promise<Extract<FromProcess, { kind: K }>> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) reject(this.#failure);
      else this.#waiter = { kind, resolve: resolve as (message: FromProcess) => void, reject };
    });
  }

  /** Kills the process and waits until it is gone. */
  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill("SIGKILL");
    await this.#exited;
  }

  #take(message: FromProcess): void {
    if (message.kind === "failed") {
      this.#fail(new LoadError(message.code, message.message));
    } else if (this.#waiter?.kind === message.kind) {
      const { resolve } = this.#waiter;
      this.#waiter = undefined;
      resolve(message);
    } else {
      this.onMessage(message);
    }
  }

  #fail(error: LoadError): void {
    this.#failure ??= error;
    this.#waiter?.reject(this.#failure);
    this.#waiter = undefined;
  }
}
