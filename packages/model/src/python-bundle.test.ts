import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { expect, test } from "vitest";
import { randomInput, temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import type { ModelSpec } from "./model-spec.ts";
import { exportBundle } from "./export-bundle.ts";
import { presetSpec } from "./presets.ts";
import { openReference } from "./reference-model.ts";

const python = process.env.DLRM_PYTHON;
const script = fileURLToPath(new URL("../test/score_bundle.py", import.meta.url));

interface PythonScores {
  readonly simulated: readonly number[];
  readonly onnx: readonly number[];
  readonly stablehlo: Readonly<Record<string, readonly number[]>>;
}

function largestDifference(found: readonly number[], expected: Float64Array): number {
  expect(found).toHaveLength(expected.length);
  return Math.max(...found.map((score, index) => Math.abs(score - (expected[index] as number))));
}

test.skipIf(python === undefined).each<[string, ModelSpec, readonly number[]]>([
  ["a tiny model", TINY_SPEC, [1, 2, 3, 8, 64]],
  ["dcnv2-lite, tables capped", presetSpec("dcnv2-lite", { maxVocabSize: 500 }), [4, 8]],
  ["the full network, tables capped", presetSpec("dcnv2-6m", { maxVocabSize: 50 }), [4]],
])(
  "Python's safetensors, onnxruntime and XLA (DLRM_PYTHON) score the bundle of %s like the reference",
  async (_name, spec, buckets) => {
    const dir = path.join(await temporaryDirectory(), "bundle");
    const bundle = await exportBundle({ spec, seed: 7, dir, buckets });
    const input = randomInput(spec, 3, 5);
    const reference = await openReference(bundle);
    const network = await reference.forward(input, "network");
    const simulated = await reference.forward(input, "simulated");
    await reference.close();

    const request = { dir, batch: input.batch, dense: [...input.dense], ids: input.ids.map((ids) => [...ids]) };
    const child = spawnSync(python as string, [script], { input: JSON.stringify(request), encoding: "utf8" });
    expect({ status: child.status, problem: child.status === 0 ? "" : child.stderr }).toEqual({
      status: 0,
      problem: "",
    });
    const scores = JSON.parse(child.stdout) as PythonScores;

    expect(largestDifference(scores.simulated, simulated)).toBeLessThan(1e-6);
    expect(largestDifference(scores.onnx, network)).toBeLessThan(1e-5);
    const padded = buckets.filter((bucket) => bucket >= input.batch).map(String);
    expect(Object.keys(scores.stablehlo)).toEqual(padded);
    for (const found of Object.values(scores.stablehlo)) expect(largestDifference(found, network)).toBeLessThan(1e-5);
  },
);
