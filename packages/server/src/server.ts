import { type Logger, pino } from "pino";
import { AdminServer, type AdminSnapshot } from "./admin-server.ts";
import { HealthState, type Phase } from "./health-state.ts";
import { cannotListen } from "./listen-error.ts";
import { LocalFrontend } from "./local-frontend.ts";
import { closeModelHost, describeBundle, type ModelHost, openModelHost } from "./model-host.ts";
import type { ServerLimits } from "./model-metadata.ts";
import type { ServerStats } from "./server-counters.ts";
import { ServerError } from "./server-error.ts";
import { type ResolvedOptions, resolveOptions, type ServerOptions } from "./server-options.ts";
import type { ServerSide } from "./server-side.ts";
import { ThreadedFrontends } from "./threaded-frontends.ts";

/** How a drain went. */
export interface DrainReport {
  /** Requests that were not answered in time, and were cut off; 0 for a clean drain. */
  readonly unfinishedRequests: number;
}

export interface RunningServer {
  readonly host: string;
  readonly port: number;
  /** Of `/metrics`, `/healthz` and `/readyz`; undefined without `adminPort`. */
  readonly adminPort: number | undefined;
  readonly phase: Phase;
  /** Threads that own connections. */
  readonly frontends: number;
  readonly limits: ServerLimits;
  readonly stats: ServerStats;
  /**
   * Says NOT_SERVING, refuses new requests with UNAVAILABLE, answers those that are in, ends all connections and frees
   * everything. After `drainTimeoutMs` it cuts off what is left. Idempotent; never rejects.
   */
  drain(): Promise<DrainReport>;
  /** The same without waiting for anything: requests that are in fail. */
  close(): Promise<void>;
}

/**
 * Serves the model in `options.bundle`. Health checks are answered once the port is bound; the promise resolves when the
 * model is loaded and warm, and the server says SERVING.
 *
 * Throws `ServerError`: `invalid_options` with everything that is wrong with the options, or `startup_failed`.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const resolved = resolveOptions(options);
  const server = new Server(resolved, options.logger ?? pino({ level: "silent" }), options.onFatal);
  try {
    await server.start(options);
  } catch (error) {
    await server.close();
    if (error instanceof ServerError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServerError("startup_failed", reason, { cause: error });
  }
  return server;
}

class Server implements RunningServer {
  readonly host: string;
  readonly #options: ResolvedOptions;
  readonly #logger: Logger;
  readonly #health = new HealthState();
  readonly #admin: AdminServer | undefined;
  readonly #onFatal: ((error: Error) => void) | undefined;
  #side: ServerSide;
  #adminPort: number | undefined = undefined;
  #port = 0;
  #model: ModelHost | undefined;
  #deviceLosses = 0;
  #deviceReopenings = 0;
  #drained: Promise<DrainReport> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: ResolvedOptions, logger: Logger, onFatal: ((error: Error) => void) | undefined) {
    this.host = options.host;
    this.#options = options;
    this.#logger = logger;
    this.#onFatal = onFatal;
    if (options.adminPort !== undefined) this.#admin = new AdminServer(() => this.#snapshot());
    this.#side = this.#createSide(options.frontends);
  }

  get port(): number {
    return this.#port;
  }

  get adminPort(): number | undefined {
    return this.#adminPort;
  }

  get phase(): Phase {
    return this.#health.phase;
  }

  get frontends(): number {
    return this.#side.frontends;
  }

  get limits(): ServerLimits {
    if (this.#model === undefined) throw new ServerError("startup_failed", "the server has no model");
    return this.#model.limits;
  }

  get stats(): ServerStats {
    return this.#side.stats;
  }

  async start(options: ServerOptions): Promise<void> {
    const { bundle: dir, host, port, adminPort } = this.#options;
    // Nobody is told of a server that cannot serve.
    const description = await describeBundle(dir, options);
    if (adminPort !== undefined)
      this.#adminPort = await this.#admin?.listen(host, adminPort).catch(cannotListen(host, adminPort, "--admin-port"));
    this.#port = await this.#listen(host, port).catch(cannotListen(host, port, "--port"));
    this.#logger.info(
      { host, port: this.#port, ...(this.#adminPort === undefined ? {} : { adminPort: this.#adminPort }) },
      "listening; the model is being loaded",
    );
    options.onListening?.(this.#port);
    const startedAt = performance.now();
    const model = await openModelHost(description, {
      options: this.#options,
      logger: this.#logger,
      signal: options.signal,
      onDeviceLost: (error, isForGood) => this.#deviceLost(error, isForGood),
      onDeviceReopened: () => this.#deviceReopened(),
    });
    this.#model = model;
    await this.#side.serve(model);
    if (options.signal?.aborted === true) throw new ServerError("startup_failed", "starting was aborted");
    this.#health.advance("serving");
    const { bundle, store, device, buckets, limits } = model;
    const { batching, batchTimeoutMicros } = this.#options;
    this.#logger.info(
      {
        model: bundle.name,
        version: bundle.version,
        kernel: store.kernel.name,
        ...(store.kernel.whyNotNative === undefined ? {} : { whyNotNative: store.kernel.whyNotNative }),
        ...(store.kernel.prefetch === undefined ? {} : { prefetch: store.kernel.prefetch }),
        device: device.name,
        precision: device.precision.name,
        ...(device.precision.error === undefined ? {} : { precisionError: device.precision.error }),
        frontends: this.frontends,
        batching,
        ...(batching === "window" ? { batchTimeoutMicros } : {}),
        largestBucket: buckets.at(-1),
        ...limits,
        elapsedMs: Math.round(performance.now() - startedAt),
      },
      "serving",
    );
  }

  drain(): Promise<DrainReport> {
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  #createSide(frontends: number): ServerSide {
    const parts = {
      options: this.#options,
      health: this.#health,
      logger: this.#logger,
      // There only if somebody can ask for them.
      timesStages: this.#admin !== undefined,
      onFatal: (error: Error) => this.#fatal(error, "the server can score nothing any more"),
    };
    return frontends > 1 ? new ThreadedFrontends(parts) : new LocalFrontend(parts);
  }

  async #listen(host: string, port: number): Promise<number> {
    try {
      return await this.#side.listen(host, port);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (this.#side.frontends === 1 || code === undefined || !CANNOT_SHARE_PORT.has(code)) throw error;
      this.#logger.warn({ reason: message }, "threads cannot share a port here: one frontend instead of several");
      await this.#side.close();
      this.#side = this.#createSide(1);
      return await this.#side.listen(host, port);
    }
  }

  #snapshot(): AdminSnapshot {
    return {
      phase: this.#health.phase,
      deviceLosses: this.#deviceLosses,
      deviceReopenings: this.#deviceReopenings,
      ...this.#side.snapshot(),
    };
  }

  #deviceLost(error: Error, isForGood: boolean): void {
    this.#deviceLosses++;
    if (isForGood) {
      this.#fatal(error, "the device is lost");
      return;
    }
    if (this.#health.phase !== "serving") return;
    this.#health.advance("recovering", "opening its device again");
    this.#logger.error({ err: error }, "the device is lost; it is opened again");
  }

  #deviceReopened(): void {
    this.#deviceReopenings++;
    if (this.#health.phase !== "recovering") return;
    this.#health.advance("serving");
    this.#logger.info({}, "the device is open again");
  }

  #fatal(error: Error, message: string): void {
    const { phase } = this.#health;
    if (phase !== "serving" && phase !== "recovering") return;
    this.#health.advance("draining", "without its device");
    this.#logger.fatal({ err: error }, message);
    this.#onFatal?.(error);
  }

  async #drain(): Promise<DrainReport> {
    const { drainTimeoutMs } = this.#options;
    const side = this.#side;
    this.#health.advance("draining");
    this.#logger.info({ inFlightRequests: side.inFlightRequests, drainTimeoutMs }, "draining");
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, drainTimeoutMs);
    });
    await Promise.race([side.drain(), timeout]);
    clearTimeout(timer);
    const unfinishedRequests = side.inFlightRequests;
    const closed = this.close();
    // A device that does not answer does not close either, and the time for waiting is over.
    if (unfinishedRequests === 0) await closed;
    this.#logger[unfinishedRequests === 0 ? "info" : "warn"]({ unfinishedRequests, ...this.stats }, "drained");
    return { unfinishedRequests };
  }

  async #close(): Promise<void> {
    this.#health.advance("closed");
    await this.#side.close();
    await this.#admin?.close();
    if (this.#model !== undefined) await closeModelHost(this.#model);
  }
}

/** What systems say where two sockets cannot listen on one port at a time. */
const CANNOT_SHARE_PORT: ReadonlySet<string> = new Set(["ENOTSUP", "EOPNOTSUPP", "ENOPROTOOPT", "EINVAL"]);
