import { describe, expect, test } from "vitest";
import { randomInput, temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { denseTensors, makeDenseTensor } from "./dense-weights.ts";
import { exportBundle } from "./export-bundle.ts";
import { presetSpec } from "./presets.ts";
import { openReference } from "./reference-model.ts";

test("tensors are named and shaped for y = x @ W + b, in the order of their use", () => {
  expect(denseTensors(presetSpec("dcnv2-lite")).map(({ name, shape }) => `${name} ${shape.join(" ")}`)).toEqual([
    "bottom_mlp.0.weight 13 64",
    "bottom_mlp.0.bias 64",
    "bottom_mlp.1.weight 64 128",
    "bottom_mlp.1.bias 128",
    "cross.0.v 3456 16",
    "cross.0.u 16 3456",
    "cross.0.bias 3456",
    "top_mlp.0.weight 3456 64",
    "top_mlp.0.bias 64",
    "top_mlp.1.weight 64 32",
    "top_mlp.1.bias 32",
    "top_mlp.2.weight 32 1",
    "top_mlp.2.bias 1",
    "simulated.w 13",
    "simulated.v 3328",
  ]);
});

test("weights after a ReLU come in opposed pairs of rows, so that a constant input adds nothing", () => {
  const tensor = denseTensors(TINY_SPEC).find(({ name }) => name === "bottom_mlp.1.weight");
  expect(tensor?.shape).toEqual([6, 5]);
  const { data } = makeDenseTensor(tensor as NonNullable<typeof tensor>, 1);
  for (let column = 0; column < 5; column++) {
    expect([0, 1, 2, 3, 4, 5].reduce((sum, row) => sum + (data[row * 5 + column] as number), 0)).toBe(0);
  }
});

test("values stay within their bounds", () => {
  for (const tensor of denseTensors(presetSpec("dcnv2-lite"))) {
    const { data } = makeDenseTensor(tensor, 1);
    const bound = Math.fround(tensor.bound);
    expect(data.every((value) => Math.abs(value) <= bound)).toBe(true);
    if (data.length > 100) expect(data.some((value) => Math.abs(value) > bound / 2)).toBe(true);
  }
});

describe.each(["dcnv2-lite", "dcnv2-smoke"])("scores of %s", (preset) => {
  test.each(preset === "dcnv2-lite" ? [0, 1, 2, 3, 4, 2 ** 32 - 1] : [1])(
    "are spread out and away from 0 and 1, with seed %d",
    async (seed) => {
      const spec = presetSpec(preset, { maxVocabSize: 200 });
      const bundle = await exportBundle({ spec, seed, dir: await temporaryDirectory(), buckets: [1] });
      const reference = await openReference(bundle);
      const input = randomInput(spec, 24, 9);
      for (const scoring of ["network", "simulated"] as const) {
        const scores = await reference.forward(input, scoring);
        const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length;
        const deviation = Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length);
        expect(deviation).toBeGreaterThan(0.08);
        expect(Math.min(...scores)).toBeGreaterThan(0.005);
        expect(Math.max(...scores)).toBeLessThan(0.995);
      }
      await reference.close();
    },
  );
});
