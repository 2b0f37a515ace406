import path from "node:path";
import { expect, test } from "vitest";
import { randomInput, temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import { openEmbeddingScorer } from "./embedding-scorer.ts";
import { exportBundle } from "./export-bundle.ts";
import { openReference } from "./reference-model.ts";
import { readTensors, type Tensor } from "./safetensors-reader.ts";

test("scores pooled vectors as the reference scores the ids they come from", async () => {
  const bundle = await exportBundle({ spec: TINY_SPEC, seed: 1, dir: await temporaryDirectory(), buckets: [1] });
  const reference = await openReference(bundle);
  const input = randomInput(TINY_SPEC, 3, 7);
  const tables = await readTensors(bundle.paths.tables);
  const { embeddingDim, features } = TINY_SPEC;
  const pooled = new Float32Array(input.batch * features.length * embeddingDim);
  for (const [f, { name, hotSize }] of features.entries()) {
    const { data } = tables.get(name) as Tensor;
    for (const [at, id] of (input.ids[f] as Int32Array).entries()) {
      const to = (Math.floor(at / hotSize) * features.length + f) * embeddingDim;
      for (let d = 0; d < embeddingDim; d++)
        pooled[to + d] = (pooled[to + d] ?? 0) + (data[id * embeddingDim + d] ?? 0);
    }
  }
  const scorer = await openEmbeddingScorer(path.dirname(bundle.paths.tables));
  expect(scorer.denseFeatures).toBe(TINY_SPEC.denseFeatures);
  const scores = await scorer.score(input.dense, pooled, input.batch);
  const expected = await reference.forward(input, "network");
  expect(scores.length).toBe(3);
  for (const [at, score] of scores.entries()) expect(score).toBeCloseTo(expected[at] ?? Number.NaN, 6);
  await expect(scorer.score(input.dense.subarray(1), pooled, input.batch)).rejects.toMatchObject({
    code: "invalid_input",
    message: `dense: expected ${3 * TINY_SPEC.denseFeatures} values [3, ${TINY_SPEC.denseFeatures}], got ${3 * TINY_SPEC.denseFeatures - 1}`,
  });
  await expect(scorer.score(input.dense, pooled.subarray(1), input.batch)).rejects.toMatchObject({
    code: "invalid_input",
  });
  await Promise.all([scorer.close(), reference.close()]);
});
