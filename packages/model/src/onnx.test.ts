import { readFile } from "node:fs/promises";
import { InferenceSession, Tensor as OrtTensor } from "onnxruntime-node";
import { describe, expect, test } from "vitest";
import { randomInput, temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { denseTensors, makeDenseTensor } from "./dense-weights.ts";
import { exportBundle } from "./export-bundle.ts";
import type { ModelSpec } from "./model-spec.ts";
import { emitOnnx } from "./onnx.ts";
import { presetSpec } from "./presets.ts";
import { openReference } from "./reference-model.ts";
import { readTensors, type Tensor } from "./safetensors-reader.ts";

function makeWeights(spec: ModelSpec, seed: number): Map<string, Tensor> {
  return new Map(denseTensors(spec).map((tensor) => [tensor.name, makeDenseTensor(tensor, seed)]));
}

/** Sums of bags, from the rows in memory. */
async function pool(
  spec: ModelSpec,
  tablesPath: string,
  batch: number,
  ids: readonly Int32Array[],
): Promise<Float32Array> {
  const dim = spec.embeddingDim;
  const pooled = new Float32Array(batch * spec.features.length * dim);
  const tables = await readTensors(tablesPath);
  for (const [index, { name, hotSize }] of spec.features.entries()) {
    const { data } = tables.get(name) as Tensor;
    for (const [position, id] of (ids[index] as Int32Array).entries()) {
      const start = (Math.floor(position / hotSize) * spec.features.length + index) * dim;
      for (let column = 0; column < dim; column++) {
        pooled[start + column] = (pooled[start + column] as number) + (data[id * dim + column] as number);
      }
    }
  }
  return pooled;
}

describe("emitOnnx", () => {
  test.each<[string, ModelSpec]>([
    ["a tiny model", TINY_SPEC],
    [
      "a model without cross layers, of one layer each",
      { ...TINY_SPEC, denseNetwork: { bottomMlp: [5], crossLayers: 0, crossProjection: 1, topMlp: [1] } },
    ],
    ["dcnv2-lite, tables capped", presetSpec("dcnv2-lite", { maxVocabSize: 500 })],
    ["the full network, tables capped", presetSpec("dcnv2-6m", { maxVocabSize: 50 })],
  ])("makes a model that onnxruntime scores like the reference, at any batch size: %s", async (_name, spec) => {
    const bundle = await exportBundle({ spec, seed: 3, dir: await temporaryDirectory() });
    const session = await InferenceSession.create(bundle.paths.onnx, { intraOpNumThreads: 1 });
    const reference = await openReference(bundle);
    expect(
      session.inputMetadata.map((input) => [input.name, input.isTensor && input.type, input.isTensor && input.shape]),
    ).toEqual([
      ["dense", "float32", ["B", spec.denseFeatures]],
      ["pooled", "float32", ["B", spec.features.length, spec.embeddingDim]],
    ]);
    for (const batch of spec.embeddingDim === 128 ? [1, 3] : [1, 3, 17, 128]) {
      const input = randomInput(spec, batch, batch);
      const pooled = await pool(spec, bundle.paths.tables, batch, input.ids);
      const { scores } = await session.run({
        dense: new OrtTensor("float32", input.dense, [batch, spec.denseFeatures]),
        pooled: new OrtTensor("float32", pooled, [batch, spec.features.length, spec.embeddingDim]),
      });
      expect(scores?.dims).toEqual([batch]);
      const expected = await reference.forward(input, "network");
      const found = scores?.data as Float32Array;
      expect(Math.max(...expected.map((score, index) => Math.abs(score - (found[index] as number))))).toBeLessThan(
        1e-5,
      );
    }
    await reference.close();
    await session.release();
  });

  test("gives the same bytes as the export", async () => {
    const bundle = await exportBundle({ spec: TINY_SPEC, seed: 3, dir: await temporaryDirectory() });
    const fromDisk = emitOnnx(bundle.spec, await readTensors(bundle.paths.dense));
    expect(Buffer.compare(fromDisk, await readFile(bundle.paths.onnx))).toBe(0);
    expect(Buffer.compare(fromDisk, emitOnnx(TINY_SPEC, makeWeights(TINY_SPEC, 3)))).toBe(0);
  });

  test("names a weight that is missing or has another shape", () => {
    const weights = makeWeights(TINY_SPEC, 1);
    const { data } = weights.get("cross.1.u") as Tensor;
    weights.set("cross.1.u", { dtype: "F32", shape: [20, 4], data });
    expect(() => emitOnnx(TINY_SPEC, weights)).toThrow("weight cross.1.u: expected shape [4, 20], got [20, 4]");
    weights.delete("top_mlp.0.bias");
    weights.delete("cross.1.u");
    expect(() => emitOnnx(TINY_SPEC, weights)).toThrow("no weight cross.1.u [4, 20]");
  });
});
