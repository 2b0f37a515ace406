import { create } from "@bufbuild/protobuf";
import type { ModelSpec } from "@dlrm/model";
import { DataType, type GetModelMetadataResponse, GetModelMetadataResponseSchema, Pooling } from "@dlrm/proto";
import { DENSE_INPUT } from "./model-plan.ts";

/** Limits of a server, most of which its metadata tell. */
export interface ServerLimits {
  readonly maxMessageBytes: number;
  readonly maxExamplesPerRequest: number;
  readonly maxBatchSize: number;
  readonly maxEnqueuedExamples: number;
  readonly maxEnqueuedBytes: number;
  /** In each frontend. */
  readonly maxBufferedBytes: number;
  /** Of gRPC messages to Predict that have not come whole, over the transport `h2`. */
  readonly maxIncompleteBytesPerConnection: number;
}

const ANY_NUMBER_OF_EXAMPLES = -1n;

export function describeModel(
  model: {
    readonly name: string;
    readonly version: string;
    readonly spec: ModelSpec;
    readonly buckets: readonly number[];
  },
  limits: ServerLimits,
): GetModelMetadataResponse {
  const { spec } = model;
  const { maxMessageBytes, maxExamplesPerRequest, maxBatchSize, maxEnqueuedExamples } = limits;
  return create(GetModelMetadataResponseSchema, {
    model: model.name,
    version: model.version,
    inputs: [
      {
        name: DENSE_INPUT,
        dataTypes: [DataType.FLOAT32],
        shape: [ANY_NUMBER_OF_EXAMPLES, BigInt(spec.denseFeatures)],
      },
      ...spec.features.map(({ name, hotSize }) => ({
        name,
        dataTypes: [DataType.INT32, DataType.INT64],
        shape: [ANY_NUMBER_OF_EXAMPLES, BigInt(hotSize)],
      })),
    ],
    outputs: [{ name: "scores", dataTypes: [DataType.FLOAT32], shape: [ANY_NUMBER_OF_EXAMPLES] }],
    tables: spec.features.map(({ name, vocabularySize, hotSize }) => ({
      input: name,
      vocabularySize: BigInt(vocabularySize),
      embeddingDim: spec.embeddingDim,
      hotSize,
      pooling: Pooling.SUM,
    })),
    buckets: [...model.buckets],
    limits: {
      maxMessageBytes: BigInt(maxMessageBytes),
      maxExamplesPerRequest,
      maxBatchSize,
      maxEnqueuedExamples,
    },
  });
}
