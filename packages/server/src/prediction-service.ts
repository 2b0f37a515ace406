import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  DataType,
  GetModelMetadataRequestSchema,
  type PredictResponse,
  PredictResponseSchema,
  type PredictionService,
} from "@dlrm/proto";
import { toConnectError } from "./connect-error.ts";
import type { Predictor } from "./predictor.ts";
import { activeRequest, parseRequest, requestMessage } from "./request-message.ts";

/** dlrm.serving.v1.PredictionService for Connect's handlers. */
export function createPredictionService(predictor: Predictor): ServiceImpl<typeof PredictionService> {
  return {
    async predict(_message, context) {
      try {
        const { signal, values } = context;
        const options = { signal, deadlineMs: context.timeoutMs() };
        const { scores, version } = await predictor.predict(requestMessage(values), options, activeRequest(values));
        return scoresResponse(scores, version);
      } catch (error) {
        throw toConnectError(error);
      }
    },

    getModelMetadata(_message, context) {
      try {
        const { model, version } = parseRequest(GetModelMetadataRequestSchema, context.values);
        return predictor.describe(model, version);
      } catch (error) {
        throw toConnectError(error);
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
