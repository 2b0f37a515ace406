import { existsSync } from "node:fs";
import type { Arm } from "@dlrm/arm-contract";
import { BenchError } from "./bench-error.ts";
import type { Findings } from "./findings.ts";
import type { Machine } from "./machine.ts";
import type { ProcessGuard } from "./process-guard.ts";
import type { Progress } from "./progress.ts";
import type { ResultsDir } from "./results-dir.ts";
import { RunningArm, type StartOptions } from "./running-arm.ts";
import type { StopOutcome } from "./server-process.ts";
import type { BenchSettings } from "./settings.ts";
import { SharedMemoryWatch } from "./shared-memory.ts";

export interface ArmRunnerOptions {
  readonly settings: BenchSettings;
  readonly machine: Machine;
  readonly guard: ProcessGuard;
  readonly results: ResultsDir;
  readonly findings: Findings;
  readonly progress: Progress;
  readonly signal: AbortSignal;
  readonly drainMs: number;
  readonly leaveServerCpus: (settings: BenchSettings) => string | undefined;
}

/** What servers in Node, Python and Rust say when they cannot listen. */
const PORT_TAKEN = /EADDRINUSE|address already in use|only one usage of each socket address/i;

/** Starts and stops the arms' servers: at most one runs at a time. */
export class ArmRunner {
  readonly #with: ArmRunnerOptions;
  #running: { arm: Arm; started: RunningArm; sharedMemory: SharedMemoryWatch } | undefined;
  #leftServerCpus = false;

  constructor(options: ArmRunnerOptions) {
    this.#with = options;
  }

  /** The server that was started last and not stopped yet, whether it still lives or not. */
  get running(): { readonly arm: Arm; readonly started: RunningArm } | undefined {
    return this.#running;
  }

  /** @throws BenchError `arm_failed` if no server was started. */
  current(): { readonly arm: Arm; readonly started: RunningArm } {
    if (this.#running === undefined) throw new BenchError("arm_failed", "there is no running server");
    return this.#running;
  }

  /** Starts the server, and once more on another port if something else took the first one meanwhile. */
  async start(arm: Arm, repeat: number): Promise<void> {
    try {
      await this.#startOnce(arm, repeat);
    } catch (error) {
      const server = this.#running?.started.server;
      const port = this.#running?.started.port;
      if (this.#with.signal.aborted || server?.logTail().some((line) => PORT_TAKEN.test(line)) !== true) throw error;
      await this.stop();
      this.#with.progress.note(`  port ${port} is in use by another process: once more on another`);
      await this.#startOnce(arm, repeat);
    }
  }

  async #startOnce(arm: Arm, repeat: number): Promise<void> {
    const { settings, machine, guard, signal, results } = this.#with;
    this.#leaveServerCpus();
    const options: StartOptions = { settings, machine, guard, logFile: this.#logFile(arm.name, repeat), signal };
    const sharedMemory = new SharedMemoryWatch();
    const started = await RunningArm.start(arm, options);
    this.#running = { arm, started, sharedMemory };
    try {
      await started.untilReady(options);
    } finally {
      if (started.pinning !== undefined) {
        results.writeJson({ cpus: settings.serverCpus, ...started.pinning }, arm.name, `pinning-r${repeat}.json`);
      }
    }
  }

  #leaveServerCpus(): void {
    if (this.#leftServerCpus) return;
    this.#leftServerCpus = true;
    const { settings, findings, progress, leaveServerCpus } = this.#with;
    const problem = leaveServerCpus(settings);
    if (problem === undefined) return;
    const warning = `the bench itself may have run on the server's CPUs: ${problem}`;
    findings.warnRun(warning);
    progress.note(`  ${warning}`);
  }

  /** `server-r1.log`, and `server-r1-2.log` of the second start in the same repeat, be it of a run that is continued. */
  #logFile(arm: string, repeat: number): string {
    for (let start = 1; ; start++) {
      const file = this.#with.results.path(arm, `server-r${repeat}${start === 1 ? "" : `-${start}`}.log`);
      if (!existsSync(file)) return file;
    }
  }

  /** Ends the server that runs, if one does. */
  async stop(): Promise<StopOutcome | undefined> {
    if (this.#running === undefined) return undefined;
    const { arm, started, sharedMemory } = this.#running;
    this.#running = undefined;
    const outcome = await started.stop(this.#with.drainMs);
    const left = sharedMemory.removeLeft().map((file) => `left ${file} behind, which was removed`);
    for (const warning of [outcome.warning, ...left]) {
      if (warning === undefined) continue;
      this.#with.findings.warn(arm.name, warning);
      this.#with.progress.note(`${arm.name} ${warning}`);
    }
    return outcome;
  }
}
