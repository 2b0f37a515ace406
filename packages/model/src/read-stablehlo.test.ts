import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { exportBundle } from "./export-bundle.ts";
import { readStableHlo } from "./read-stablehlo.ts";
import { readTensors } from "./safetensors-reader.ts";
import { emitStableHlo } from "./stablehlo.ts";

test("each bucket has its module, and the weights come in the order of the arguments", async () => {
  const dir = path.join(await temporaryDirectory(), "bundle");
  const bundle = await exportBundle({ spec: TINY_SPEC, seed: 3, dir, buckets: [2, 8] });
  const { program, weights } = await readStableHlo(bundle);
  // The head of the file stays with the first module: a comment to every reader of MLIR.
  expect(program(2)).toBe(emitStableHlo(TINY_SPEC, { buckets: [2] }));
  expect(program(8)).toMatch(/^module @dense_b8 \{\n/);
  expect(emitStableHlo(TINY_SPEC, { buckets: [8] }).endsWith(program(8))).toBe(true);
  const names = [...(/main\(([^)]*)\)/.exec(program(8))?.[1] ?? "").matchAll(/%([^:]+):/g)].map(([, name]) => name!);
  expect(names.slice(0, 3)).toEqual(["dense", "pooled", "bottom_mlp.0.weight"]);
  const tensors = await readTensors(bundle.paths.dense);
  expect(weights).toEqual(names.slice(2).map((name) => tensors.get(name)?.data));
  expect(() => program(4)).toThrow(
    expect.objectContaining({
      code: "invalid_bundle",
      message: `${bundle.paths.stableHlo}: no module of batch size 4, only of 2, 8`,
    }),
  );
});

test("a file that does not name its arguments is refused", async () => {
  const dir = await temporaryDirectory();
  const stableHlo = path.join(dir, "dense.stablehlo.mlir");
  await writeFile(stableHlo, "module @dense_b1 {}\n");
  const paths = { tables: "", dense: "", onnx: "", stableHlo };
  await expect(readStableHlo({ paths })).rejects.toMatchObject({
    code: "invalid_bundle",
    message: `${stableHlo}: no line "// arguments: dense pooled …" at its head`,
  });
});
