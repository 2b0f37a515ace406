import { Health, PredictionService, ServerReflection, ServerReflectionV1Alpha } from "@dlrm/proto";
import { type Logger, pino } from "pino";
import { AdminServer, type AdminSnapshot } from "./admin-server.ts";
import { toConnectError } from "./connect-error.ts";
import { createH2Predict } from "./h2-predict.ts";
import { H2Transport } from "./h2-transport.ts";
import { createHealthService } from "./health-service.ts";
import { HealthState, type Phase } from "./health-state.ts";
import { LoadedModel } from "./loaded-model.ts";
import type { ServerLimits } from "./model-metadata.ts";
import { ModelRegistry } from "./model-registry.ts";
import { createPredictionService } from "./prediction-service.ts";
import { createNodePredict } from "./node-predict.ts";
import { NodeTransport } from "./node-transport.ts";
import { Predictor } from "./predictor.ts";
import { createReflectionServices } from "./reflection-service.ts";
import { RequestActivity } from "./request-activity.ts";
import { createRpcHandlers } from "./rpc-handlers.ts";
import { createRpcListener } from "./rpc-listener.ts";
import { ServerCounters, type ServerStats } from "./server-counters.ts";
import { ServerError } from "./server-error.ts";
import { type ResolvedOptions, resolveOptions, type ServerOptions } from "./server-options.ts";
import { StageTimes } from "./stage-times.ts";
import type { Transport } from "./transport.ts";

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

/** Limit of messages as long as no model is there to say how large a request can be. */
const STARTING_MAX_MESSAGE_BYTES = 64 * 1024;

/**
 * Serves the model in `options.bundle`. Health checks are answered once the port is bound; the promise resolves when the
 * model is loaded and warm, and the server says SERVING.
 *
 * Throws `ServerError`: `invalid_options` with everything that is wrong with the options, or `startup_failed`.
 */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const resolved = resolveOptions(options);
  const server = new Server(resolved, options.logger ?? pino({ level: "silent" }));
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
  readonly #models = new ModelRegistry<LoadedModel>();
  readonly #counters = new ServerCounters();
  readonly #transport: Transport;
  /** There only if somebody can ask for them. */
  readonly #stages: StageTimes | undefined;
  readonly #admin: AdminServer | undefined;
  #adminPort: number | undefined = undefined;
  #port = 0;
  #maxMessageBytes = STARTING_MAX_MESSAGE_BYTES;
  readonly #activity = new RequestActivity();
  #drained: Promise<DrainReport> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: ResolvedOptions, logger: Logger) {
    this.host = options.host;
    this.#options = options;
    this.#logger = logger;
    if (options.adminPort !== undefined) {
      const stages = new StageTimes();
      this.#stages = stages;
      this.#admin = new AdminServer(() => this.#snapshot(stages));
    }
    const predictor = new Predictor({
      stages: this.#stages,
      models: this.#models,
      counters: this.#counters,
      activity: this.#activity,
      logger,
    });
    const prediction = createPredictionService(predictor);
    const health = createHealthService(this.#health);
    const services = [PredictionService, Health, ServerReflection, ServerReflectionV1Alpha];
    const reflection = createReflectionServices(services, this.#health);
    const maxMessageBytes = (): number => this.#maxMessageBytes;
    const onRequest = (service: string): (() => void) => {
      // Watching the health, or asking what there is, is no work to wait for.
      if (service !== PredictionService.typeName) return doNothing;
      this.#activity.enter();
      return this.#activity.leave;
    };
    const onFailure = (error: unknown, path: string): void =>
      logger.error({ err: error, path }, "a request failed outside its method");
    const handlers = createRpcHandlers({
      routes: (router) => {
        router.service(PredictionService, prediction);
        router.service(Health, health);
        router.service(ServerReflection, reflection.v1);
        router.service(ServerReflectionV1Alpha, reflection.v1alpha);
      },
      gate: (context) => {
        if (context.service === PredictionService) this.#gate();
      },
    });
    const listener = createRpcListener({
      handlers,
      maxMessageBytes,
      onRequest,
      isClosing: () => this.#health.phase === "draining" || this.#health.phase === "closed",
      onFailure,
    });
    const predict = { predictor, maxMessageBytes, gate: () => this.#gate(), activity: this.#activity };
    const limits = options.transportLimits;
    this.#transport =
      options.transport === "node"
        ? new NodeTransport({ onStream: createNodePredict(predict), onRequest: listener, limits })
        : new H2Transport({
            onStream: createH2Predict(predict),
            handlers,
            onHttp1Request: listener,
            maxMessageBytes,
            onRequest,
            onFailure,
            limits,
          });
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

  get limits(): ServerLimits {
    return this.#model.limits;
  }

  get stats(): ServerStats {
    return this.#counters.stats;
  }

  async start(options: ServerOptions): Promise<void> {
    const { host, port, adminPort } = this.#options;
    if (adminPort !== undefined) this.#adminPort = await this.#admin?.listen(host, adminPort);
    this.#port = await this.#transport.listen(host, port);
    this.#logger.info(
      { host, port: this.#port, ...(this.#adminPort === undefined ? {} : { adminPort: this.#adminPort }) },
      "listening; the model is being loaded",
    );
    options.onListening?.(this.#port);
    const startedAt = performance.now();
    const model = await LoadedModel.load({
      options: this.#options,
      limits: options,
      logger: this.#logger,
      signal: options.signal,
      stages: this.#stages,
      onDeviceLost: (error) => this.#deviceLost(error, options),
    });
    this.#models.add(model);
    this.#maxMessageBytes = model.limits.maxMessageBytes;
    if (options.signal?.aborted === true) throw new ServerError("startup_failed", "starting was aborted");
    this.#health.advance("serving");
    const { name, version, kernel, deviceName, buckets, limits } = model;
    const { batching, batchTimeoutMicros } = this.#options;
    this.#logger.info(
      {
        model: name,
        version,
        kernel: kernel.name,
        ...(kernel.whyNotNative === undefined ? {} : { whyNotNative: kernel.whyNotNative }),
        device: deviceName,
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

  get #model(): LoadedModel {
    return this.#models.resolve("", "");
  }

  #snapshot(stages: StageTimes): AdminSnapshot {
    const [model] = this.#models.all;
    return {
      phase: this.#health.phase,
      stats: this.stats,
      stages,
      inFlightRequests: this.#activity.inFlight,
      outOfVocabulary: model?.outOfVocabulary ?? new Map<string, number>(),
      batcher: model?.batcherStats(),
    };
  }

  #gate(): void {
    const { phase, reason } = this.#health;
    if (phase === "serving") return;
    const why = phase === "starting" ? "starting" : (reason ?? "draining");
    const error = toConnectError(new ServerError("unavailable", `the server is ${why}: try another one`));
    this.#counters.refused(error.code);
    throw error;
  }

  #deviceLost(error: Error, options: ServerOptions): void {
    if (this.#health.phase !== "serving") return;
    this.#health.advance("draining", "without its device");
    this.#logger.fatal({ err: error }, "the device is lost");
    options.onFatal?.(error);
  }

  async #drain(): Promise<DrainReport> {
    const { drainTimeoutMs } = this.#options;
    const activity = this.#activity;
    this.#health.advance("draining");
    this.#logger.info({ inFlightRequests: activity.inFlight, drainTimeoutMs }, "draining");
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, drainTimeoutMs);
    });
    const answered = async (): Promise<void> => {
      // The batcher waits for others no longer once there can be none.
      await activity.until(() => activity.allScoring);
      for (const model of this.#models.all) await model.drain();
      await activity.until(() => activity.inFlight === 0);
      // Watchers of the health are let go only now: while there was work they were told NOT_SERVING.
      this.#health.advance("closed");
      await this.#transport.close();
    };
    await Promise.race([answered(), timeout]);
    clearTimeout(timer);
    const unfinishedRequests = activity.inFlight;
    const closed = this.close();
    // A device that does not answer does not close either, and the time for waiting is over.
    if (unfinishedRequests === 0) await closed;
    this.#logger[unfinishedRequests === 0 ? "info" : "warn"]({ unfinishedRequests, ...this.stats }, "drained");
    return { unfinishedRequests };
  }

  async #close(): Promise<void> {
    this.#health.advance("closed");
    const transportClosed = this.#transport.close();
    this.#transport.destroy();
    await transportClosed;
    await this.#admin?.close();
    for (const model of this.#models.all) await model.close();
  }
}

function doNothing(): void {}
