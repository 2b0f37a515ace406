import { create, toBinary } from "@bufbuild/protobuf";
import type { Bundle } from "@dlrm/model";
import { DataType, GetModelMetadataResponseSchema, Pooling } from "@dlrm/proto";

export interface ServerLimits {
  readonly maxMessageBytes: number;
  readonly maxExamplesPerRequest: number;
  readonly maxBatchSize: number;
}

const ANY_NUMBER_OF_EXAMPLES = -1n;
/** Names, types and shapes of one input, at most. */
const INPUT_OVERHEAD_BYTES = 256;

/** What a request of `maxExamples` takes with int64 ids, in whole MiB. */
export function largestMessageBytes({ spec }: Bundle, maxExamples: number): number {
  const idsPerExample = spec.features.reduce((sum, { hotSize }) => sum + hotSize, 0);
  const bytes =
    maxExamples * (8 * idsPerExample + 4 * spec.denseFeatures) + (spec.features.length + 1) * INPUT_OVERHEAD_BYTES;
  return Math.ceil(bytes / 2 ** 20) * 2 ** 20;
}

/** A GetModelMetadataResponse, encoded. */
export function modelMetadata(
  { name, version, spec }: Bundle,
  limits: ServerLimits,
  buckets: readonly number[],
): Buffer {
  const response = create(GetModelMetadataResponseSchema, {
    model: name,
    version,
    inputs: [
      { name: "dense", dataTypes: [DataType.FLOAT32], shape: [ANY_NUMBER_OF_EXAMPLES, BigInt(spec.denseFeatures)] },
      ...spec.features.map((feature) => ({
        name: feature.name,
        dataTypes: [DataType.INT32, DataType.INT64],
        shape: [ANY_NUMBER_OF_EXAMPLES, BigInt(feature.hotSize)],
      })),
    ],
    outputs: [{ name: "scores", dataTypes: [DataType.FLOAT32], shape: [ANY_NUMBER_OF_EXAMPLES] }],
    tables: spec.features.map((feature) => ({
      input: feature.name,
      vocabularySize: BigInt(feature.vocabularySize),
      embeddingDim: spec.embeddingDim,
      hotSize: feature.hotSize,
      pooling: Pooling.SUM,
    })),
    buckets: [...buckets],
    limits: { ...limits, maxMessageBytes: BigInt(limits.maxMessageBytes) },
  });
  return Buffer.from(toBinary(GetModelMetadataResponseSchema, response));
}
