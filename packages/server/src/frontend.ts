import { Health, PredictionService, ServerReflection, ServerReflectionV1Alpha } from "@dlrm/proto";
import type { Logger } from "pino";
import { BodyBudget } from "./body-budget.ts";
import { dropDistantDeadline } from "./body-deadline.ts";
import { toConnectError } from "./connect-error.ts";
import type { FrontendCells } from "./frontend-cells.ts";
import { createH2Predict } from "./h2-predict.ts";
import { H2Transport } from "./h2-transport.ts";
import { createHealthService } from "./health-service.ts";
import type { HealthState } from "./health-state.ts";
import { DEFAULT_MAX_BUFFERED_BYTES } from "./limits.ts";
import { ModelRegistry } from "./model-registry.ts";
import { createNodePredict, PREDICT_PATH } from "./node-predict.ts";
import { NodeTransport } from "./node-transport.ts";
import { createPredictionService } from "./prediction-service.ts";
import { Predictor } from "./predictor.ts";
import { createReflectionServices } from "./reflection-service.ts";
import { ActiveRequest, RequestActivity } from "./request-activity.ts";
import { interceptRequestMessage } from "./request-message.ts";
import type { BeginRpcCall } from "./rpc-call.ts";
import { createRpcHandlers, readsStream } from "./rpc-handlers.ts";
import { checkRpcHeaders } from "./rpc-headers.ts";
import { createRpcListener } from "./rpc-listener.ts";
import type { ScoringModel } from "./scoring-model.ts";
import { ServerCounters } from "./server-counters.ts";
import { ServerError } from "./server-error.ts";
import type { TransportKind } from "./server-options.ts";
import { StageTimes } from "./stage-times.ts";
import type { Transport, TransportLimits } from "./transport.ts";

/** What a frontend logs. */
export type FailureLogger = Pick<Logger, "error">;

export interface FrontendOptions {
  readonly transport: TransportKind;
  readonly transportLimits: TransportLimits;
  /** Whether the times of stages are taken. */
  readonly timesStages: boolean;
  readonly cells: FrontendCells;
  readonly health: HealthState;
  readonly logger: FailureLogger;
}

/** Limit of messages as long as no model is there to say how large a request can be. */
const STARTING_MAX_MESSAGE_BYTES = 64 * 1024;

/** Owns connections and answers their requests: the services on a transport, in the thread that makes it. */
export class Frontend {
  readonly transport: Transport;
  readonly activity: RequestActivity;
  readonly counters: ServerCounters;
  readonly stages: StageTimes | undefined;
  readonly #health: HealthState;
  readonly #models = new ModelRegistry<ScoringModel>();
  readonly #bodies = new BodyBudget(DEFAULT_MAX_BUFFERED_BYTES);
  #maxMessageBytes = STARTING_MAX_MESSAGE_BYTES;

  constructor(options: FrontendOptions) {
    const { cells, health, logger } = options;
    this.#health = health;
    this.activity = new RequestActivity(cells.activity);
    this.counters = new ServerCounters(cells.counters);
    this.stages = options.timesStages ? new StageTimes(cells.stages) : undefined;
    const predictor = new Predictor({
      stages: this.stages,
      models: this.#models,
      counters: this.counters,
      logger,
    });
    this.transport = this.#createTransport(predictor, options);
  }

  /** From now on requests can name this model. */
  add(model: ScoringModel): void {
    this.#models.add(model);
    this.#maxMessageBytes = model.limits.maxMessageBytes;
    this.#bodies.maxBytes = model.limits.maxBufferedBytes;
  }

  /** Throws, and counts it, if the server takes no requests now. */
  #gate(): void {
    const { phase, reason } = this.#health;
    if (phase === "serving") return;
    const why = phase === "starting" ? "starting" : (reason ?? "draining");
    const error = toConnectError(new ServerError("unavailable", `the server is ${why}: try another one`));
    this.counters.refused(error.code);
    throw error;
  }

  #createTransport(predictor: Predictor, { transport, transportLimits: limits, logger }: FrontendOptions): Transport {
    const { activity } = this;
    const bodies = this.#bodies;
    const health = this.#health;
    const prediction = createPredictionService(predictor);
    const services = [PredictionService, Health, ServerReflection, ServerReflectionV1Alpha];
    const reflection = createReflectionServices(services, health);
    const maxMessageBytes = (): number => this.#maxMessageBytes;
    const gate = (): void => this.#gate();
    // Watching the health, or asking what there is, is no work to wait for.
    const idle = new RequestActivity();
    const beginCall: BeginRpcCall = (handler, request) => {
      dropDistantDeadline(request.header);
      const active = new ActiveRequest(handler.service.typeName === PredictionService.typeName ? activity : idle);
      if (readsStream(handler)) return { request, isLate: () => false, end: () => active.leave() };
      // Until the call is over: so long Connect's handler keeps the message.
      const held = bodies.hold();
      const end = (): void => {
        active.leave();
        held.release();
      };
      const onRefused = (error: ServerError): void => {
        if (handler.requestPath === PREDICT_PATH) predictor.failed(error);
      };
      let isLate = false;
      const onLate = (): void => {
        isLate = true;
      };
      const reading = { active, maxMessageBytes: maxMessageBytes(), held, onLate, onRefused };
      return { request: interceptRequestMessage(request, reading), isLate: () => isLate, end };
    };
    const onFailure = (error: unknown, path: string): void =>
      logger.error({ err: error, path }, "a request failed outside its method");
    const handlers = createRpcHandlers({
      routes: (router) => {
        router.service(PredictionService, prediction);
        router.service(Health, createHealthService(health));
        router.service(ServerReflection, reflection.v1);
        router.service(ServerReflectionV1Alpha, reflection.v1alpha);
      },
      gate: (context) => {
        if (context.service !== PredictionService) return;
        gate();
        if (context.method !== PredictionService.method.predict) return;
        try {
          checkRpcHeaders(context);
        } catch (error) {
          throw toConnectError(predictor.failed(error));
        }
      },
    });
    const listener = createRpcListener({
      handlers,
      beginCall,
      isClosing: () => health.phase === "draining" || health.phase === "closed",
      onFailure,
    });
    const predict = { predictor, maxMessageBytes, gate, activity, bodies };
    return transport === "node"
      ? new NodeTransport({ onStream: createNodePredict(predict), onRequest: listener, limits })
      : new H2Transport({
          onStream: createH2Predict(predict),
          handlers,
          onHttp1Request: listener,
          beginCall,
          onFailure,
          limits,
        });
  }
}
