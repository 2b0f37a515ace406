import { execFile } from "node:child_process";
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

const CASES: readonly { readonly spec: ModelSpec; readonly buckets: readonly number[] }[] = [
  { spec: TINY_SPEC, buckets: [1, 2, 3, 8, 64] },
  { spec: presetSpec("dcnv2-lite", { maxVocabSize: 500 }), buckets: [4, 8] },
  { spec: presetSpec("dcnv2-6m", { maxVocabSize: 50 }), buckets: [4] },
];

interface PythonScores {
  readonly simulated: readonly number[];
  readonly onnx: readonly number[];
  /** By bucket. */
  readonly stablehlo: Readonly<Record<string, readonly number[]>>;
}

async function scoreWithPython(requests: readonly object[]): Promise<PythonScores[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = execFile(python as string, [script], (error, stdout) =>
    error === null ? resolve(stdout) : reject(error),
  );
  child.stdin?.end(JSON.stringify(requests));
  return JSON.parse(await promise) as PythonScores[];
}

function largestDifference(found: readonly number[], expected: Float64Array): number {
  expect(found).toHaveLength(expected.length);
  return Math.max(...found.map((score, index) => Math.abs(score - (expected[index] as number))));
}

test.skipIf(python === undefined)(
  "Python's safetensors, onnxruntime and XLA score bundles like the reference (needs the Python of DLRM_PYTHON)",
  async () => {
    const parent = await temporaryDirectory();
    const requests: object[] = [];
    const expected: { readonly network: Float64Array; readonly simulated: Float64Array }[] = [];
    for (const [index, { spec, buckets }] of CASES.entries()) {
      const bundle = await exportBundle({ spec, seed: 7, dir: path.join(parent, String(index)), buckets });
      const input = randomInput(spec, 3, 5);
      const reference = await openReference(bundle);
      expected.push({
        network: await reference.forward(input, "network"),
        simulated: await reference.forward(input, "simulated"),
      });
      await reference.close();
      requests.push({
        dir: bundle.dir,
        batch: 3,
        dense: [...input.dense],
        ids: input.ids.map((ids) => Array.from(ids)),
      });
    }

    const results = await scoreWithPython(requests);

    expect(results).toHaveLength(CASES.length);
    for (const [index, { network, simulated }] of expected.entries()) {
      const result = results[index] as PythonScores;
      expect(largestDifference(result.simulated, simulated)).toBeLessThan(1e-6);
      expect(largestDifference(result.onnx, network)).toBeLessThan(1e-5);
      const buckets = CASES[index]?.buckets.filter((bucket) => bucket >= 3).map(String);
      expect(Object.keys(result.stablehlo)).toEqual(buckets);
      for (const scores of Object.values(result.stablehlo))
        expect(largestDifference(scores, network)).toBeLessThan(1e-5);
    }
  },
);
