import type { Arm } from "@dlrm/arm-contract";
import { BenchError, messageOf } from "./bench-error.ts";
import { HOST, serverCommand } from "./commands.ts";
import { freePort } from "./free-port.ts";
import type { Machine } from "./machine.ts";
import { checkPinning, type PinningCheck } from "./pinning.ts";
import { PredictionClient } from "./prediction-client.ts";
import type { ProcessGuard } from "./process-guard.ts";
import { ServerProcess, type StopOutcome } from "./server-process.ts";
import type { BenchSettings } from "./settings.ts";

export interface StartOptions {
  readonly settings: BenchSettings;
  readonly machine: Machine;
  readonly guard: ProcessGuard;
  readonly logFile: string;
  readonly signal: AbortSignal;
}

const CONNECTIONS = 4;

/** An arm's server that was started, and the connection to it. */
export class RunningArm {
  readonly port: number;
  readonly server: ServerProcess;
  readonly client: PredictionClient;
  /** Where the kernel says that the server's threads may run, read once it was healthy; undefined without taskset. */
  pinning: PinningCheck | undefined;

  private constructor(port: number, server: ServerProcess) {
    this.port = port;
    this.server = server;
    this.client = new PredictionClient(HOST, port);
  }

  /** Starts the process only; `untilReady` waits for it. */
  static async start(arm: Arm, { settings, machine, guard, logFile }: StartOptions): Promise<RunningArm> {
    const port = await freePort(HOST);
    const command = serverCommand(settings, machine, arm, port);
    return new RunningArm(port, new ServerProcess({ command, logFile, guard }));
  }

  /**
   * Waits for SERVING, then checks that every thread is where it should be.
   *
   * @returns milliseconds until the server was healthy.
   */
  async untilReady({ settings, machine, signal }: StartOptions): Promise<number> {
    const startedMs = await this.during("its start", signal, async (giveUp) => {
      try {
        return await this.client.untilServing(settings.startTimeoutS * 1000, giveUp);
      } catch (error) {
        giveUp.throwIfAborted();
        throw new BenchError("arm_failed", messageOf(error), { cause: error });
      }
    });
    if (machine.taskset !== undefined && this.server.pid !== undefined) {
      this.pinning = checkPinning(this.server.pid, settings.serverCpus);
      const { strays } = this.pinning;
      if (strays.length > 0) {
        throw new BenchError("arm_failed", `not pinned to CPUs ${settings.serverCpus.join(",")}: ${strays[0]}`);
      }
    }
    return startedMs;
  }

  /** Does `work` while the server lives; it is given up if the server ends or `signal` is aborted. */
  async during<Result>(
    doing: string,
    signal: AbortSignal,
    work: (giveUp: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    return await this.server.during(doing, async (ended) => await work(AbortSignal.any([ended, signal])));
  }

  /** Does `work` over several connections, so that more than one process of a server that has several answers. */
  async overConnections<Result>(
    work: (clients: readonly [PredictionClient, ...PredictionClient[]]) => Promise<Result>,
  ): Promise<Result> {
    const others = Array.from({ length: CONNECTIONS - 1 }, () => new PredictionClient(HOST, this.port));
    try {
      return await work([this.client, ...others]);
    } finally {
      for (const client of others) client.close();
    }
  }

  /** @param drainMs how long the server may take after SIGTERM. */
  async stop(drainMs: number): Promise<StopOutcome> {
    this.client.close();
    return await this.server.stop(drainMs);
  }
}
