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
  readonly leaveServerCpus: (settings: BenchSettings) => void;
}

/** What servers in Node, Python and Rust say when they cannot listen. */
const PORT_TAKEN = /EADDRINUSE|address already in use|only one usage of each socket address/i;

/** Starts and stops the arms' servers: at most one runs at a time. */
export class ArmRunner {
  readonly #with: ArmRunnerOptions;
  readonly #starts: Map<string, number> = new Map();
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
    const { settings, machine, guard, signal, results, leaveServerCpus } = this.#with;
    if (!this.#leftServerCpus) leaveServerCpus(settings);
    this.#leftServerCpus = true;
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

  /** `server-r1.log`, and `server-r1-2.log` of the second start in the same repeat. */
  #logFile(arm: string, repeat: number): string {
    const starts = (this.#starts.get(`${arm} ${repeat}`) ?? 0) + 1;
    this.#starts.set(`${arm} ${repeat}`, starts);
    return this.#with.results.path(arm, `server-r${repeat}${starts === 1 ? "" : `-${starts}`}.log`);
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
