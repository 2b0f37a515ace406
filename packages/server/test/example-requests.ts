import { DataType } from "@dlrm/proto";
import { expect } from "vitest";
import { TINY_SPEC, type TemporaryBundle } from "./serving-fixture.ts";

export interface ExampleRequest {
  readonly batch: number;
  readonly dense: Float32Array<ArrayBuffer>;
  /** One array a feature, [batch, hotSize]. */
  readonly ids: readonly Int32Array<ArrayBuffer>[];
}

export interface TensorInit {
  dataType: DataType;
  shape: bigint[];
  data: Uint8Array<ArrayBuffer>;
}

/** Requests of random examples, the same for the same seed. */
export function exampleRequest(seed: number, batch: number): ExampleRequest {
  const next = randomSource(seed);
  return {
    batch,
    dense: Float32Array.from({ length: batch * TINY_SPEC.denseFeatures }, () => next() * 4 - 2),
    ids: TINY_SPEC.features.map(({ vocabularySize, hotSize }) =>
      Int32Array.from({ length: batch * hotSize }, () => Math.floor(next() * vocabularySize)),
    ),
  };
}

/** Uniform numbers in [0, 1). https://en.wikipedia.org/wiki/Linear_congruential_generator, Knuth's MMIX constants. */
export function randomSource(seed: number): () => number {
  let state = BigInt(seed) * 2n + 1n;
  return () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    return Number(state >> 33n) / 2 ** 31;
  };
}

/** The inputs of a PredictRequest; every other feature's ids are int64. */
export function inputsOf(request: ExampleRequest): Record<string, TensorInit> {
  const { batch, dense, ids } = request;
  const inputs: Record<string, TensorInit> = {
    dense: {
      dataType: DataType.FLOAT32,
      shape: [BigInt(batch), BigInt(TINY_SPEC.denseFeatures)],
      data: bytesOf(dense),
    },
  };
  for (const [feature, { name, hotSize }] of TINY_SPEC.features.entries()) {
    const of = ids[feature] as Int32Array<ArrayBuffer>;
    const wide = feature % 2 === 1;
    inputs[name] = {
      dataType: wide ? DataType.INT64 : DataType.INT32,
      shape: [BigInt(batch), BigInt(hotSize)],
      data: bytesOf(wide ? BigInt64Array.from(of, BigInt) : of),
    };
  }
  return inputs;
}

export function bytesOf(
  array: Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** A response's scores, checked to be a float32 [B]. */
export function scoresOf(
  outputs: Readonly<Record<string, { dataType: number; shape: readonly bigint[]; data: Uint8Array }>>,
): number[] {
  expect(Object.keys(outputs)).toEqual(["scores"]);
  const { dataType, shape, data } = outputs["scores"] as NonNullable<(typeof outputs)[string]>;
  expect(dataType).toBe(DataType.FLOAT32);
  expect(shape).toEqual([BigInt(data.length / 4)]);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Array.from({ length: data.length / 4 }, (_, index) => view.getFloat32(index * 4, true));
}

/** Expects scores to be those of the independent reference forward, within the parity tolerance. */
export async function expectReferenceScores(
  bundle: TemporaryBundle,
  request: ExampleRequest,
  scores: readonly number[],
  network: "network" | "simulated" = "simulated",
): Promise<void> {
  const expected = await bundle.reference.forward(request, network);
  expect(scores).toHaveLength(request.batch);
  for (const [example, score] of scores.entries()) {
    expect(Math.abs(score - (expected[example] as number)), `example ${example}`).toBeLessThanOrEqual(1e-4);
  }
}
