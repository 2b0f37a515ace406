import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  DataType,
  GetModelMetadataRequestSchema,
  PredictRequestSchema,
  type PredictResponse,
  PredictResponseSchema,
  type PredictionService,
} from "@dlrm/proto";
import type { Logger } from "pino";
import { toConnectError } from "./connect-error.ts";
import type { ScoringRequest } from "./input-collector.ts";
import type { LoadedModel } from "./loaded-model.ts";
import { describeModel } from "./model-metadata.ts";
import type { ModelRegistry } from "./model-registry.ts";
import { decodePredictMessage, decodePredictRequest, type ResolvedRequest } from "./predict-request.ts";
import { parseMessage, parseRequest, requestMessage } from "./request-message.ts";
import type { RequestActivity } from "./request-activity.ts";
import type { ServerCounters } from "./server-counters.ts";
import { ServerError } from "./server-error.ts";

export interface PredictionServiceOptions {
  readonly models: ModelRegistry<LoadedModel>;
  readonly counters: ServerCounters;
  readonly activity: RequestActivity;
  readonly logger: Logger;
}

/** dlrm.serving.v1.PredictionService over the models of a server. */
export function createPredictionService({
  models,
  counters,
  activity,
  logger,
}: PredictionServiceOptions): ServiceImpl<typeof PredictionService> {
  const resolve = (name: string, version: string): LoadedModel => models.resolve(name, version);

  const decode = (context: HandlerContext): ResolvedRequest<LoadedModel> => {
    const message = requestMessage(context.values);
    return message.json
      ? decodePredictMessage(parseMessage(PredictRequestSchema, message), resolve)
      : decodePredictRequest(message.bytes, resolve);
  };

  const score = async (
    model: LoadedModel,
    request: ScoringRequest,
    context: HandlerContext,
  ): Promise<Float32Array<ArrayBuffer>> => {
    activity.scoringStarted();
    try {
      return await model.predict(request, { signal: context.signal, deadlineMs: context.timeoutMs() });
    } finally {
      activity.scoringEnded();
    }
  };

  const refuse = (error: unknown): never => {
    const connectError = toConnectError(error);
    counters.refused(connectError.code);
    const isFault = !(error instanceof ServerError) ? error !== connectError : error.code === "internal";
    if (isFault) logger.error({ err: error }, "a request failed");
    throw connectError;
  };

  return {
    async predict(_message, context) {
      try {
        const { model, request } = decode(context);
        const scores = await score(model, request, context);
        counters.answered(request.batch);
        return scoresResponse(scores, model.version);
      } catch (error) {
        return refuse(error);
      }
    },

    getModelMetadata(_message, context) {
      try {
        const { model, version } = parseRequest(GetModelMetadataRequestSchema, context.values);
        const found = models.resolve(model, version);
        return describeModel(found, found.limits);
      } catch (error) {
        return refuse(error);
      }
    },
  };
}

function scoresResponse(scores: Float32Array<ArrayBuffer>, version: string): PredictResponse {
  return create(PredictResponseSchema, {
    version,
    outputs: {
      scores: {
        dataType: DataType.FLOAT32,
        shape: [BigInt(scores.length)],
        data: new Uint8Array(scores.buffer, scores.byteOffset, scores.byteLength),
      },
    },
  });
}
