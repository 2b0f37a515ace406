import type { Histogram } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import type { Logger } from "pino";
import { allocateFrontendCells, type FrontendCells, frontendCells, RING_CELL } from "./frontend-cells.ts";
import type { FromFrontend, FrontendThreadData, ToFrontend } from "./frontend-protocol.ts";
import type { HealthState } from "./health-state.ts";
import type { ModelHost } from "./model-host.ts";
import type { RingDevice } from "./ring-device.ts";
import type { ResolvedOptions } from "./server-options.ts";

// The file that stands beside this one, in the form this one is in: source or built.
const THREAD_URL = new URL(
  import.meta.url.endsWith(".ts") ? "./frontend-thread.ts" : "./frontend-thread.js",
  import.meta.url,
);

/** A frontend that ends sooner than this after it was ready is not replaced at once, milliseconds. */
const RESTART_DELAY_MS = 1000;

export interface FrontendThreadsOptions {
  readonly options: ResolvedOptions;
  readonly health: HealthState;
  readonly logger: Logger;
  readonly timesStages: boolean;
}

/** One frontend: its cells and count of unknown ids stay when its thread is replaced. */
interface Seat {
  readonly index: number;
  readonly cellsBuffer: SharedArrayBuffer;
  readonly cells: FrontendCells;
  outOfVocabulary: Float64Array;
  eventLoopDelay: Histogram | undefined;
  worker: Worker | undefined;
  producerId: number;
  readyAtMs: number;
  isPlaced: boolean;
  isDrained: boolean;
}

/** What the frontends that are started later are told. */
interface Served {
  readonly host: ModelHost;
  readonly device: RingDevice;
}

/** Frontends in threads of their own, that listen on one port and share a device through a ring. */
export class FrontendThreads {
  readonly #options: FrontendThreadsOptions;
  readonly #seats: readonly Seat[];
  #port = 0;
  #served: Served | undefined;
  #isDraining = false;
  #isClosed = false;
  readonly #waiting = new Set<() => void>();

  constructor(options: FrontendThreadsOptions) {
    this.#options = options;
    this.#seats = Array.from({ length: options.options.frontends }, (_, index) => {
      const cellsBuffer = allocateFrontendCells();
      return {
        index,
        cellsBuffer,
        cells: frontendCells(cellsBuffer),
        outOfVocabulary: new Float64Array(0),
        eventLoopDelay: undefined,
        worker: undefined,
        producerId: -1,
        readyAtMs: 0,
        isPlaced: false,
        isDrained: false,
      };
    });
  }

  /** Of every frontend. */
  get cells(): readonly FrontendCells[] {
    return this.#seats.map(({ cells }) => cells);
  }

  /** Requests refused for an id that is no row of its table, of every frontend, by input. */
  get outOfVocabulary(): readonly Float64Array[] {
    return this.#seats.map((seat) => seat.outOfVocabulary);
  }

  /** Of the frontends that listen, by the names of their threads. */
  get eventLoopDelays(): ReadonlyMap<string, Histogram> {
    const delays = new Map<string, Histogram>();
    for (const { index, eventLoopDelay } of this.#seats) {
      if (eventLoopDelay !== undefined) delays.set(`frontend ${index}`, eventLoopDelay);
    }
    return delays;
  }

  get inFlightRequests(): number {
    return this.#seats.reduce((sum, { cells }) => sum + (cells.activity[0] as number), 0);
  }

  /**
   * Starts the threads, which all listen on one port; the port. Rejects with the system's error: of code `ENOTSUP` if no two
   * can listen on one port here.
   */
  async listen(): Promise<number> {
    this.#port = this.#options.options.port;
    // The first one finds out the port for all.
    const [first, ...others] = this.#seats as [Seat, ...Seat[]];
    this.#port = await this.#start(first);
    await Promise.all(others.map((seat) => this.#start(seat)));
    void this.#followHealth();
    return this.#port;
  }

  /** Gives every frontend the model; resolves when all are ready to score. */
  async serve(host: ModelHost, device: RingDevice): Promise<void> {
    this.#served = { host, device };
    const inputs = 1 + host.bundle.spec.features.length;
    for (const seat of this.#seats) seat.outOfVocabulary = sharedFloat64(inputs);
    await Promise.all(this.#seats.map((seat) => this.#giveModel(seat)));
  }

  /** Answers what is in and ends all connections and threads. The health says draining. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const seat of this.#seats) post(seat, { type: "drain" });
    const served = this.#served;
    await this.#until(() => this.#seats.every((seat) => seat.isPlaced || seat.isDrained || seat.worker === undefined));
    if (served !== undefined) await served.device.drain();
    await this.#until(() => this.#seats.every((seat) => seat.isDrained || seat.worker === undefined));
  }

  /** Ends all threads at once. */
  async close(): Promise<void> {
    this.#isDraining = true;
    this.#isClosed = true;
    await Promise.all(this.#seats.map(async ({ worker }) => worker?.terminate()));
    this.#changed();
  }

  /** Starts a seat's thread; resolves with its port once it listens. */
  async #start(seat: Seat): Promise<number> {
    const { options, health, logger, timesStages } = this.#options;
    const { host, reusePort, transport, transportLimits } = options;
    const count = this.#seats.length;
    const workerData: FrontendThreadData = {
      host,
      port: this.#port,
      reusePort,
      transport,
      transportLimits: {
        ...transportLimits,
        // The kernel spreads connections evenly, if not exactly so.
        maxConnections: Math.ceil(transportLimits.maxConnections / count),
      },
      timesStages,
      cells: seat.cellsBuffer,
      phase: health.phase,
      reason: health.reason,
    };
    const worker = new Worker(THREAD_URL, { workerData, name: `frontend ${seat.index}` });
    seat.worker = worker;
    return await new Promise<number>((resolve, reject) => {
      let failure: unknown;
      worker.on("message", (message: FromFrontend) => {
        switch (message.type) {
          case "listening":
            seat.eventLoopDelay = message.eventLoopDelay;
            resolve(message.port);
            break;
          case "listen-failed":
            reject(Object.assign(new Error(message.message), { code: message.code }));
            break;
          case "ready":
            seat.producerId = message.producerId;
            seat.readyAtMs = performance.now();
            break;
          case "placed":
            seat.isPlaced = true;
            break;
          case "drained":
            seat.isDrained = true;
            break;
          case "log":
            logger.error({ ...message.fields, frontend: seat.index }, message.message);
        }
        this.#changed();
      });
      worker.once("error", (error) => {
        failure = error;
      });
      worker.once("exit", (exitCode) => {
        reject(failure ?? new Error(`frontend ${seat.index} ended with code ${exitCode}`));
        this.#ended(seat, exitCode, failure);
      });
    });
  }

  #ended(seat: Seat, exitCode: number, failure: unknown): void {
    seat.worker = undefined;
    seat.eventLoopDelay = undefined;
    const { producerId } = seat;
    seat.producerId = -1;
    if (producerId >= 0 && !seat.isDrained) this.#served?.device.bury(producerId);
    // Its requests went with its connections.
    seat.cells.activity.fill(0);
    for (const cell of [RING_CELL.unanswered, RING_CELL.waitingRequests, RING_CELL.waitingExamples]) {
      seat.cells.ring[cell] = 0;
    }
    this.#changed();
    if (this.#isDraining || this.#served === undefined) return;
    const { logger } = this.#options;
    logger.error({ err: failure, frontend: seat.index, exitCode }, "a frontend has ended; it is replaced");
    const isQuick = performance.now() - seat.readyAtMs < RESTART_DELAY_MS;
    setTimeout(() => void this.#replace(seat), isQuick ? RESTART_DELAY_MS : 0);
  }

  async #replace(seat: Seat): Promise<void> {
    if (this.#isDraining) return;
    try {
      await this.#start(seat);
      await this.#giveModel(seat);
      this.#options.logger.info({ frontend: seat.index }, "a frontend has been replaced");
    } catch (error) {
      // Its end, if it has ended, is worked off by itself.
      this.#options.logger.error({ err: error, frontend: seat.index }, "a frontend could not be replaced");
    }
  }

  async #giveModel(seat: Seat): Promise<void> {
    const { host, device } = this.#served as Served;
    const { bundle, limits, buckets, store } = host;
    post(seat, {
      type: "model",
      info: {
        name: bundle.name,
        version: bundle.version,
        spec: bundle.spec,
        limits,
        buckets,
        ring: device.ring,
        running: device.running.buffer,
        frontends: this.#seats.map(({ cells }) => cells.ring),
      },
      store: store.handle(),
      outOfVocabulary: seat.outOfVocabulary,
    });
    await this.#until(() => seat.producerId >= 0 || seat.worker === undefined);
    if (seat.worker === undefined && !this.#isClosed)
      throw new Error(`frontend ${seat.index} ended before it was ready`);
  }

  /** Tells the frontends of every change of phase. */
  async #followHealth(): Promise<void> {
    const { health } = this.#options;
    const { signal } = new AbortController();
    for (;;) {
      await health.changed(signal);
      const { phase, reason } = health;
      // Frontends close by themselves, when their watchers may be let go.
      if (phase === "closed" || this.#isClosed) return;
      for (const seat of this.#seats) post(seat, { type: "phase", phase, reason });
    }
  }

  /** Resolves once `condition` holds after a change, or holds already. */
  async #until(condition: () => boolean): Promise<void> {
    while (!condition() && !this.#isClosed) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }

  #changed(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}

function post(seat: Seat, message: ToFrontend): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port between threads has no origin
  seat.worker?.postMessage(message);
}

function sharedFloat64(length: number): Float64Array {
  return new Float64Array(new SharedArrayBuffer(8 * length));
}
