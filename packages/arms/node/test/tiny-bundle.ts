import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { create } from "@bufbuild/protobuf";
import { type Bundle, exportBundle, type ModelSpec } from "@dlrm/model";
import { DataType, HostBufferSchema, type PredictRequest, PredictRequestSchema } from "@dlrm/proto";

/** Small in every dimension, and with no two dimensions alike: a mix-up of them cannot pass. */
export const TINY_SPEC: ModelSpec = {
  name: "tiny",
  embeddingDim: 8,
  denseFeatures: 3,
  features: [
    { name: "sparse_0", vocabularySize: 50, hotSize: 5, pooling: "sum" },
    { name: "sparse_1", vocabularySize: 7, hotSize: 1, pooling: "sum" },
  ],
  denseNetwork: { bottomMlp: [16, 8], crossLayers: 1, crossProjection: 4, topMlp: [12, 1] },
};

export async function tinyBundle(): Promise<{ readonly bundle: Bundle; readonly remove: () => Promise<void> }> {
  const root = await mkdtemp(path.join(tmpdir(), "dlrm-arm-node-test-"));
  const bundle = await exportBundle({
    spec: TINY_SPEC,
    seed: 7,
    dir: path.join(root, "bundle"),
    version: "3",
    buckets: [1, 2, 4, 8],
  });
  return { bundle, remove: () => rm(root, { recursive: true, force: true }) };
}

export interface TinyInput {
  readonly batch: number;
  readonly dense: Float32Array;
  readonly ids: readonly Int32Array[];
}

export function tinyInput(batch: number): TinyInput {
  return {
    batch,
    dense: Float32Array.from({ length: batch * 3 }, (_, i) => ((i * 37) % 19) / 10 - 0.9),
    ids: TINY_SPEC.features.map(({ vocabularySize, hotSize }, feature) =>
      Int32Array.from({ length: batch * hotSize }, (_, i) => (i * 13 + feature + vocabularySize - 1) % vocabularySize),
    ),
  };
}

export function tinyRequest({ batch, dense, ids }: TinyInput, wide = false): PredictRequest {
  const buffer = (dataType: DataType, width: number, values: ArrayBufferView) =>
    create(HostBufferSchema, {
      dataType,
      shape: [BigInt(batch), BigInt(width)],
      data: new Uint8Array(values.buffer as ArrayBuffer, values.byteOffset, values.byteLength),
    });
  const request = create(PredictRequestSchema, { inputs: { dense: buffer(DataType.FLOAT32, 3, dense) } });
  for (const [index, { name, hotSize }] of TINY_SPEC.features.entries()) {
    const values = ids[index] as Int32Array;
    request.inputs[name] = wide
      ? buffer(DataType.INT64, hotSize, BigInt64Array.from(values, BigInt))
      : buffer(DataType.INT32, hotSize, values);
  }
  return request;
}
