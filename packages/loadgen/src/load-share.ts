import { Channel } from "./channel.ts";
import { ClosedLoop, type LoadLoop, type LoopParts } from "./closed-loop.ts";
import { connectH2 } from "./h2-connection.ts";
import type { FilledLoadOptions } from "./load-options.ts";
import { nowMicros } from "./monotonic-clock.ts";
import { connectNode } from "./node-connection.ts";
import { OpenLoop } from "./open-loop.ts";
import { ThreadPacer } from "./pacer.ts";
import { poissonSchedule } from "./poisson-schedule.ts";
import { PREDICT_PATH } from "./predict-path.ts";
import { Recorder, type MeasuredWindow, type ShareResult } from "./recorder.ts";
import { buildRequestPool, type RequestPool } from "./request-pool.ts";
import type { Share } from "./share-plan.ts";

/** Counts of one interval, of one process. */
export interface ShareProgress {
  /** Answers since load began. */
  readonly ok: number;
  readonly failed: number;
  /** Of the interval: see LiveLatency. */
  readonly latency: readonly (readonly [bucket: number, count: number])[];
}

/** What one load process has to say at the end. */
export interface ShareReport extends ShareResult {
  /** CPU time of the process, all its threads, in `cpuElapsedMicros` of the measured window. */
  readonly cpuMicros: number;
  readonly cpuElapsedMicros: number;
  /** Connections made after the first ones were lost. */
  readonly reconnects: number;
}

/** One process's share of a run: its pool, connections and loop. */
export class LoadShare {
  readonly #options: FilledLoadOptions;
  readonly #share: Share;
  readonly #schedule: Float64Array<SharedArrayBuffer> | undefined;
  readonly #channels: readonly Channel[];
  readonly pool: RequestPool;
  #pacer: ThreadPacer | undefined;
  #loop: LoadLoop | undefined;

  private constructor(options: FilledLoadOptions, share: Share) {
    this.#options = options;
    this.#share = share;
    this.pool = buildRequestPool({ ...options, ...share });
    if (options.mode.kind === "open") {
      this.#schedule = poissonSchedule({
        seed: options.seed,
        ratePerS: options.mode.offeredRps,
        lengthS: options.warmupS + options.durationS,
        // Code that has not run yet is slow: at the full rate it would fall behind, and still be late in the window.
        rampS: options.warmupS / 2,
        ...share,
      });
    }
    const connect = options.transport === "h2" ? connectH2 : connectNode;
    const target = { host: options.host, port: options.port, path: PREDICT_PATH, deadlineMs: options.deadlineMs };
    const listener = {
      onAnswer: (token: number, status: number, detail: string, bodyBytes: number): void =>
        this.#loop?.onAnswer(token, status, detail, bodyBytes),
    };
    this.#channels = Array.from({ length: share.connections }, () => new Channel(connect, target, listener));
  }

  /** Makes the requests and the connections. Rejects with `connect_failed`. */
  static async prepare(options: FilledLoadOptions, share: Share): Promise<LoadShare> {
    const prepared = new LoadShare(options, share);
    try {
      await Promise.all(prepared.#channels.map((channel) => channel.open()));
      if (prepared.#schedule !== undefined) prepared.#pacer = await ThreadPacer.prepare(prepared.#schedule);
    } catch (error) {
      prepared.close();
      throw error;
    }
    return prepared;
  }

  /** Runs from `startMicros` of the monotonic clock on, which is when warm-up begins. */
  async run(startMicros: number, onProgress?: (progress: ShareProgress) => void): Promise<ShareReport> {
    const { warmupS, durationS, drainS, lateAfterMicros, mode } = this.#options;
    const fromMicros = startMicros + warmupS * 1e6;
    const window: MeasuredWindow = { fromMicros, toMicros: fromMicros + durationS * 1e6 };
    const recorder = new Recorder(window, { open: mode.kind === "open", lateAfterMicros });
    const cpu = new CpuInWindow();
    const timers: NodeJS.Timeout[] = [];
    const at = (micros: number, run: () => void): void => {
      timers.push(setTimeout(run, Math.max(0, (micros - nowMicros()) / 1000)));
    };
    if (onProgress !== undefined) {
      timers.push(setInterval(() => onProgress(takeProgress(recorder)), 1000));
    }
    try {
      await new Promise<void>((resolve) => {
        const loop = this.#makeLoop(startMicros, {
          channels: this.#channels,
          pool: this.pool,
          recorder,
          now: nowMicros,
          onFinished: resolve,
        });
        this.#loop = loop;
        at(startMicros, () => loop.start());
        at(window.fromMicros, () => cpu.begin());
        at(window.toMicros, () => {
          cpu.end();
          loop.windowOver();
        });
        at(window.toMicros + drainS * 1e6, resolve);
      });
      cpu.end();
    } finally {
      for (const timer of timers) clearTimeout(timer);
      this.#loop?.stop();
    }
    recorder.giveUp();
    this.close();
    const reconnects = this.#channels.reduce((sum, channel) => sum + channel.connects - 1, 0);
    return { ...recorder.result(), cpuMicros: cpu.micros, cpuElapsedMicros: cpu.elapsedMicros, reconnects };
  }

  /** Closes all connections. */
  close(): void {
    this.#loop?.stop();
    for (const channel of this.#channels) channel.close();
  }

  #makeLoop(startMicros: number, parts: LoopParts): LoadLoop {
    const schedule = this.#schedule;
    const pacer = this.#pacer;
    if (schedule === undefined || pacer === undefined) return new ClosedLoop(this.#share.callers, parts);
    for (let i = 0; i < schedule.length; i++) schedule[i] = (schedule[i] as number) + startMicros;
    const maxInFlight = Math.ceil(this.#options.maxInFlight / this.#share.parts);
    return new OpenLoop({ schedule, maxInFlight, pacer }, parts);
  }
}

function takeProgress(recorder: Recorder): ShareProgress {
  return { ok: recorder.answersOk, failed: recorder.answersFailed, latency: recorder.live.take() };
}

/** CPU time of this process between two moments. */
class CpuInWindow {
  #before: { cpu: NodeJS.CpuUsage; atMicros: number } | undefined;
  micros = 0;
  elapsedMicros = 0;

  begin(): void {
    this.#before = { cpu: process.cpuUsage(), atMicros: nowMicros() };
  }

  /** Only the first call counts. */
  end(): void {
    if (this.#before === undefined) return;
    const { user, system } = process.cpuUsage(this.#before.cpu);
    this.micros = user + system;
    this.elapsedMicros = nowMicros() - this.#before.atMicros;
    this.#before = undefined;
  }
}
