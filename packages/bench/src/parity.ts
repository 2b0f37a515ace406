import { create } from "@bufbuild/protobuf";
import type { ModelSpec } from "@dlrm/model";
import { DataType, HostBufferSchema, PredictRequestSchema } from "@dlrm/proto";
import type { HostBuffer, PredictRequest, PredictResponse } from "@dlrm/proto";
import { enumName } from "./enum-name.ts";
import { SeededRandom } from "./seeded-random.ts";

/** Largest difference of a score from the reference that is let pass. */
const PARITY_TOLERANCE = 1e-4;

export type IdType = "int32" | "int64";
export const ID_TYPES: readonly IdType[] = ["int32", "int64"];

export interface ModelInput {
  readonly batch: number;
  /** [batch, dense features] row-major. */
  readonly dense: Float32Array;
  /** One array a feature, [batch, hot size] row-major. */
  readonly ids: readonly Int32Array[];
}

/** Seeded inputs whose first example has the first row of every table in each bag, and whose last one the last row. */
export function parityInput(spec: ModelSpec, batch: number, seed: number): ModelInput {
  const random = new SeededRandom(seed + batch * 7919);
  const dense = Float32Array.from({ length: batch * spec.denseFeatures }, () => random.signed());
  const ids = spec.features.map(({ vocabularySize, hotSize }) => {
    const values = Int32Array.from({ length: batch * hotSize }, () => random.below(vocabularySize));
    values[0] = 0;
    values[values.length - 1] = vocabularySize - 1;
    return values;
  });
  return { batch, dense, ids };
}

export function predictRequest(spec: ModelSpec, input: ModelInput, idType: IdType): PredictRequest {
  const request = create(PredictRequestSchema, { model: spec.name });
  const put = (name: string, dataType: DataType, width: number, values: ArrayBufferView): void => {
    const shape = [BigInt(input.batch), BigInt(width)];
    const data = new Uint8Array(values.buffer as ArrayBuffer, values.byteOffset, values.byteLength);
    request.inputs[name] = create(HostBufferSchema, { dataType, shape, data });
  };
  put("dense", DataType.FLOAT32, spec.denseFeatures, input.dense);
  for (const [index, { name, hotSize }] of spec.features.entries()) {
    const ids = input.ids[index] as Int32Array;
    if (idType === "int32") put(name, DataType.INT32, hotSize, ids);
    else put(name, DataType.INT64, hotSize, BigInt64Array.from(ids, BigInt));
  }
  return request;
}

/** The examples `from` up to but not including `to`, without a copy. */
export function examplesOf(
  { denseFeatures, features }: ModelSpec,
  input: ModelInput,
  from: number,
  to: number,
): ModelInput {
  return {
    batch: to - from,
    dense: input.dense.subarray(from * denseFeatures, to * denseFeatures),
    ids: features.map(({ hotSize }, index) => (input.ids[index] as Int32Array).subarray(from * hotSize, to * hotSize)),
  };
}

/** How far an answer is from the reference: `maxAbsDiff`, or why there is nothing to compare. */
export type ParityOutcome =
  | { readonly ok: boolean; readonly maxAbsDiff: number; readonly error?: string }
  | { readonly ok: false; readonly maxAbsDiff: null; readonly error: string };

export function compareScores(expected: Float64Array, response: PredictResponse): ParityOutcome {
  const wrong = (error: string): ParityOutcome => ({ ok: false, maxAbsDiff: null, error });
  const scores = response.outputs["scores"];
  if (scores === undefined) {
    const names = Object.keys(response.outputs);
    return wrong(`expected the output scores, got ${names.length === 0 ? "none" : names.join(", ")}`);
  }
  const values = float32Of(scores, expected.length);
  if (typeof values === "string") return wrong(values);
  let maxAbsDiff = 0;
  for (const [index, value] of values.entries()) {
    const difference = Math.abs(value - (expected[index] as number));
    if (!Number.isFinite(difference)) return wrong(`score ${index}: expected ${expected[index]}, got ${value}`);
    maxAbsDiff = Math.max(maxAbsDiff, difference);
  }
  return { ok: maxAbsDiff <= PARITY_TOLERANCE, maxAbsDiff };
}

/** The values, or what is wrong with the buffer. */
function float32Of({ dataType, shape, data }: HostBuffer, length: number): Float32Array | string {
  if (dataType !== DataType.FLOAT32) return `scores: expected type FLOAT32, got ${enumName(DataType, dataType)}`;
  if (shape.length !== 1 || shape[0] !== BigInt(length))
    return `scores: expected shape [${length}], got [${shape.join(", ")}]`;
  if (data.byteLength !== length * 4) return `scores: expected ${length * 4} bytes, got ${data.byteLength}`;
  // A copy, since the bytes may lie at any offset.
  return new Float32Array(data.slice().buffer);
}
