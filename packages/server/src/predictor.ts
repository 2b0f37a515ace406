import { type GetModelMetadataResponse, PredictRequestSchema } from "@dlrm/proto";
import { toConnectError } from "./connect-error.ts";
import type { ScoringRequest } from "./input-collector.ts";
import type { FailureLogger } from "./frontend.ts";
import type { PredictOptions, ScoringModel } from "./scoring-model.ts";
import { describeModel } from "./model-metadata.ts";
import type { ModelRegistry } from "./model-registry.ts";
import { PredictDecoder } from "./predict-decoder.ts";
import { decodePredictMessage, type ResolvedRequest } from "./predict-request.ts";
import type { ActiveRequest } from "./request-activity.ts";
import { parseMessage, type RequestMessage } from "./request-message.ts";
import type { ScoreSink } from "./score-sink.ts";
import type { ServerCounters } from "./server-counters.ts";
import type { StageTimes } from "./stage-times.ts";
import { ServerError } from "./server-error.ts";

export interface Prediction {
  /** [B] */
  readonly scores: Float32Array<ArrayBuffer>;
  /** Of the model. */
  readonly version: string;
}

export interface PredictorParts {
  readonly models: ModelRegistry<ScoringModel>;
  readonly counters: ServerCounters;
  readonly logger: FailureLogger;
  /** Told of the times of the stages, if somebody wants to know. */
  readonly stages: StageTimes | undefined;
}

/** The methods of the prediction service, whatever protocol a request comes by. Failures are counted and, if ours, logged. */
export class Predictor {
  readonly #models: ModelRegistry<ScoringModel>;
  readonly #counters: ServerCounters;
  readonly #logger: FailureLogger;
  readonly #stages: StageTimes | undefined;
  readonly #decoder: PredictDecoder<ScoringModel>;
  readonly #resolve: (name: string, version: string) => ScoringModel;

  constructor({ models, counters, logger, stages }: PredictorParts) {
    this.#models = models;
    this.#counters = counters;
    this.#logger = logger;
    this.#stages = stages;
    this.#resolve = (name, version) => models.resolve(name, version);
    this.#decoder = new PredictDecoder(this.#resolve);
  }

  async predict(message: RequestMessage, options: PredictOptions, active: ActiveRequest): Promise<Prediction> {
    try {
      const { model, request } = this.#decode(message);
      const scores = await this.#score(model, request, options, active);
      this.#counters.answered(request.batch);
      return { scores, version: model.version };
    } catch (error) {
      throw this.failed(error);
    }
  }

  /**
   * Scores the message `bytes[start, end)`, read before this returns; `sink` is told the outcome, perhaps at once. Its `scored`
   * must call `scored` of this, its `failed` must call `failed`.
   */
  score(bytes: Uint8Array, start: number, end: number, sink: ScoreSink): void {
    try {
      const stages = this.#stages;
      const startedMs = stages === undefined ? 0 : performance.now();
      const { model, request } = this.#decoder.decode(bytes, start, end);
      stages?.observe("decode", performance.now() - startedMs);
      model.score(request, sink);
    } catch (error) {
      sink.failed(error);
    }
  }

  /** Counts a request that `score` was given and that has its scores. */
  scored(examples: number): void {
    this.#counters.answered(examples);
  }

  describe(name: string, version: string): GetModelMetadataResponse {
    try {
      const model = this.#models.resolve(name, version);
      return describeModel(model, model.limits);
    } catch (error) {
      throw this.failed(error);
    }
  }

  /** Counts a failure, logs it if it is a fault of the server, and returns it. */
  failed(error: unknown): unknown {
    const connectError = toConnectError(error);
    this.#counters.refused(connectError.code);
    const isFault = error instanceof ServerError ? error.code === "internal" : error !== connectError;
    if (isFault) this.#logger.error({ err: error }, "a request failed");
    return error;
  }

  #decode(message: RequestMessage): ResolvedRequest<ScoringModel> {
    return message.json
      ? decodePredictMessage(parseMessage(PredictRequestSchema, message), this.#resolve)
      : this.#decoder.decode(message.bytes);
  }

  async #score(
    model: ScoringModel,
    request: ScoringRequest,
    options: PredictOptions,
    active: ActiveRequest,
  ): Promise<Float32Array<ArrayBuffer>> {
    active.scoringStarted();
    try {
      return await model.predict(request, options);
    } finally {
      active.scoringEnded();
    }
  }
}
