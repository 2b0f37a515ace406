import * as fc from "fast-check";
import * as ort from "onnxruntime-node";
import { describe, expect, test } from "vitest";
import { quantizeOnnx } from "./quantize-onnx.ts";
import { encodeOnnx, type FixtureModel } from "../test/onnx-fixture.ts";

const pseudoRandom = (length: number, seed: number): Float32Array =>
  Float32Array.from({ length }, (_, i) => {
    const value = Math.sin((i + 1) * 78.233 + seed) * 43_758.5453;
    return (value - Math.floor(value)) * 2 - 1;
  });

/** y = relu(x · w0 + b0) · w1, x [B,32]; w0 is a Gemm's, w1 a MatMul's. */
function twoLayers(): FixtureModel {
  return {
    inputs: [{ name: "x", shape: ["batch", 32] }],
    outputs: [{ name: "y", shape: ["batch", 8] }],
    nodes: [
      { op: "Gemm", inputs: ["x", "w0", "b0"], outputs: ["h"] },
      { op: "Relu", inputs: ["h"], outputs: ["r"] },
      { op: "MatMul", inputs: ["r", "w1"], outputs: ["y"] },
    ],
    weights: [
      { name: "w0", shape: [32, 16], data: pseudoRandom(32 * 16, 1) },
      { name: "b0", shape: [16], data: pseudoRandom(16, 2) },
      { name: "w1", shape: [16, 8], data: pseudoRandom(16 * 8, 3) },
    ],
  };
}

async function run(bytes: Uint8Array, inputs: Record<string, ort.Tensor>, output = "y"): Promise<Float32Array> {
  const session = await ort.InferenceSession.create(bytes, { intraOpNumThreads: 1, logSeverityLevel: 4 });
  const { [output]: y } = await session.run(inputs);
  await session.release();
  return y!.data as Float32Array;
}

describe("quantizing an ONNX model", () => {
  test("changes results by no more than int8 must", async () => {
    const bytes = encodeOnnx(twoLayers());
    const quantized = quantizeOnnx(bytes);
    expect(quantized.quantizedWeights).toBe(2);
    const x = new ort.Tensor("float32", pseudoRandom(64 * 32, 4), [64, 32]);
    const expected = await run(bytes, { x });
    const actual = await run(quantized.bytes, { x });
    const worst = Math.max(...expected.map((value, i) => Math.abs(value - actual[i]!)));
    const largest = Math.max(...expected.map((value) => Math.abs(value)));
    expect(worst).toBeGreaterThan(0);
    expect(worst / largest).toBeLessThan(0.03);
  });

  test("is exact where nothing is lost: integers, whose columns and batch reach the largest of their type", async () => {
    const model: FixtureModel = {
      inputs: [{ name: "x", shape: ["batch", 2] }],
      outputs: [{ name: "y", shape: ["batch", 2] }],
      nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"] }],
      weights: [{ name: "w", shape: [2, 2], data: Float32Array.of(64, -3, 64, 64) }],
    };
    const x = new ort.Tensor("float32", Float32Array.of(0, 1, 255, 255), [2, 2]);
    const y = await run(quantizeOnnx(encodeOnnx(model)).bytes, { x });
    expect([...y]).toEqual([64, 64, 255 * 128, 255 * 61]);
  });

  test("makes the file smaller, and keeps a weight that something else needs too", async () => {
    const model = twoLayers();
    const bytes = encodeOnnx(model);
    const weightBytes = 4 * (32 * 16 + 16 * 8);
    expect(quantizeOnnx(bytes).bytes.length).toBeLessThan(bytes.length - weightBytes / 2);
    const shared = encodeOnnx({
      ...model,
      outputs: [...model.outputs, { name: "w", shape: [16, 8] }],
      nodes: [...model.nodes, { op: "Identity", inputs: ["w1"], outputs: ["w"] }],
    });
    const x = new ort.Tensor("float32", new Float32Array(32), [1, 32]);
    expect(await run(quantizeOnnx(shared).bytes, { x }, "w")).toEqual(pseudoRandom(16 * 8, 3));
  });

  test.each<[string, Partial<FixtureModel>]>([
    ["a product of two inputs", { nodes: [{ op: "MatMul", inputs: ["x", "x"], outputs: ["y"] }] }],
    ["a transposed Gemm", { nodes: [{ op: "Gemm", inputs: ["x", "w0"], outputs: ["y"], attributes: { transB: 1 } }] }],
    ["an operator of the same shape", { nodes: [{ op: "Add", inputs: ["x", "w0"], outputs: ["y"] }] }],
  ])("leaves alone %s", (_case, change) => {
    const bytes = encodeOnnx({ ...twoLayers(), ...change });
    const { bytes: after, quantizedWeights } = quantizeOnnx(bytes);
    expect(quantizedWeights).toBe(0);
    expect(after.length).toBe(bytes.length);
  });

  test("throws nothing but a RangeError on damaged files", () => {
    const bytes = encodeOnnx(twoLayers());
    const damaged = fc.record({
      length: fc.integer({ min: 0, max: bytes.length }),
      changes: fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { maxLength: 8 }),
    });
    fc.assert(
      fc.property(damaged, ({ length, changes }) => {
        const copy = Uint8Array.from(bytes);
        for (const [at, value] of changes) copy[at] = value;
        try {
          quantizeOnnx(copy.subarray(0, length));
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
    );
  });
});
