import { create } from "@bufbuild/protobuf";
import type { ModelSpec } from "@dlrm/model";
import { DataType, PredictResponseSchema } from "@dlrm/proto";
import type { PredictResponse } from "@dlrm/proto";
import { describe, expect, it } from "vitest";
import { compareScores, parityInput, predictRequest } from "./parity.ts";

const spec: ModelSpec = {
  name: "tiny",
  embeddingDim: 4,
  denseFeatures: 3,
  features: [
    { name: "sparse_0", vocabularySize: 1000, hotSize: 2, pooling: "sum" },
    { name: "sparse_1", vocabularySize: 1, hotSize: 3, pooling: "sum" },
  ],
  denseNetwork: { bottomMlp: [4], crossLayers: 1, crossProjection: 2, topMlp: [1] },
};

function answer(values: readonly number[], changes: { shape?: bigint[]; dataType?: DataType } = {}): PredictResponse {
  return create(PredictResponseSchema, {
    outputs: {
      scores: {
        dataType: changes.dataType ?? DataType.FLOAT32,
        shape: changes.shape ?? [BigInt(values.length)],
        data: new Uint8Array(Float32Array.from(values).buffer),
      },
    },
  });
}

describe("parityInput", () => {
  it("has the first and the last row of every table, and is the same for the same seed", () => {
    const input = parityInput(spec, 16, 1);
    expect(input).toEqual(parityInput(spec, 16, 1));
    expect(input).not.toEqual(parityInput(spec, 16, 2));
    expect(input.dense).toHaveLength(48);
    expect(input.dense.every((value) => Math.abs(value) <= 1)).toBe(true);
    const [ids, only] = input.ids as [Int32Array, Int32Array];
    expect(ids).toHaveLength(32);
    expect([ids[0], ids[31]]).toEqual([0, 999]);
    expect(new Set(ids).size).toBeGreaterThan(20);
    expect([...only]).toEqual(Array.from({ length: 48 }, () => 0));
  });
});

describe("predictRequest", () => {
  it("has every input with its shape, ids in either type", () => {
    const input = parityInput(spec, 2, 1);
    for (const [idType, dataType, bytes] of [
      ["int32", DataType.INT32, 4],
      ["int64", DataType.INT64, 8],
    ] as const) {
      const request = predictRequest(spec, input, idType);
      expect(Object.keys(request.inputs)).toEqual(["dense", "sparse_0", "sparse_1"]);
      expect(request.model).toBe("tiny");
      const { sparse_0: ids, dense } = request.inputs;
      expect(ids).toMatchObject({ dataType, shape: [2n, 2n] });
      expect(ids?.data).toHaveLength(4 * bytes);
      const view = new DataView(ids?.data.buffer as ArrayBuffer, ids?.data.byteOffset);
      const last = idType === "int32" ? view.getInt32(12, true) : Number(view.getBigInt64(24, true));
      expect(last).toBe(999);
      expect(dense).toMatchObject({ dataType: DataType.FLOAT32, shape: [2n, 3n] });
      expect(dense?.data).toHaveLength(24);
    }
  });
});

describe("compareScores", () => {
  it("gives the largest difference, and passes up to the tolerance", () => {
    const reference = Float64Array.of(0.5, 0.25);
    expect(compareScores(reference, answer([0.5, 0.25]))).toEqual({ ok: true, maxAbsDiff: 0 });
    expect(compareScores(reference, answer([0.5, 0.25 + 2 ** -14]))).toEqual({ ok: true, maxAbsDiff: 2 ** -14 });
    expect(compareScores(reference, answer([0.5 - 2 ** -13, 0.25]))).toEqual({ ok: false, maxAbsDiff: 2 ** -13 });
  });

  it.each([
    ["no output", create(PredictResponseSchema), "expected the output scores, got none"],
    ["another type", answer([1, 2], { dataType: DataType.FLOAT64 }), "scores: expected type FLOAT32, got FLOAT64"],
    ["another shape", answer([1, 2], { shape: [2n, 1n] }), "scores: expected shape [2], got [2, 1]"],
    ["fewer bytes", answer([1], { shape: [2n] }), "scores: expected 8 bytes, got 4"],
    ["a score that is no number", answer([0.5, Number.NaN]), "score 1: expected 0.25, got NaN"],
  ])("says what is wrong with %s", (_, response, error) => {
    expect(compareScores(Float64Array.of(0.5, 0.25), response)).toEqual({ ok: false, maxAbsDiff: null, error });
  });

  it("reads scores at any offset", () => {
    const response = answer([0.5]);
    const scores = response.outputs["scores"];
    const bytes = new Uint8Array(7);
    bytes.set(scores?.data ?? [], 3);
    if (scores !== undefined) scores.data = bytes.subarray(3);
    expect(compareScores(Float64Array.of(0.5), response)).toEqual({ ok: true, maxAbsDiff: 0 });
  });
});
