import fc from "fast-check";
import { expect, test } from "vitest";
import { planModel } from "./model-plan.ts";
import { joinScores, sliceRequest } from "./split-request.ts";

const features = [2, 1, 4].map((hotSize, index) => ({
  name: `f${index}`,
  vocabularySize: 1000,
  hotSize,
  pooling: "sum" as const,
}));
const plan = planModel({
  name: "m",
  embeddingDim: 4,
  denseFeatures: 3,
  features,
  denseNetwork: { bottomMlp: [4], crossLayers: 0, crossProjection: 1, topMlp: [1] },
});

/** Ids that say their feature, example and position: 100 · feature + 10 · example + position, by the definition of the layout. */
function requestOf(
  batch: number,
  first: number,
): { batch: number; dense: Float32Array<ArrayBuffer>; ids: Int32Array<ArrayBuffer> } {
  const ids: number[] = [];
  for (const [feature, { hotSize }] of features.entries()) {
    for (let example = 0; example < batch; example++) {
      for (let position = 0; position < hotSize; position++)
        ids.push(1000 * feature + 10 * (first + example) + position);
    }
  }
  const dense = Float32Array.from({ length: batch * 3 }, (_, index) => first * 3 + index);
  return { batch, dense, ids: Int32Array.from(ids) };
}

test("a slice is the request of just these examples", () => {
  fc.assert(
    fc.property(fc.nat(20), fc.integer({ min: 1, max: 10 }), fc.nat(10), (start, count, rest) => {
      expect(sliceRequest(plan, requestOf(start + count + rest, 0), start, count)).toEqual(requestOf(count, start));
    }),
    { seed: 6 },
  );
});

test("scores of parts are joined in order", () => {
  const parts = [Float32Array.of(1, 2), Float32Array.of(3), new Float32Array(), Float32Array.of(4, 5)];
  expect(joinScores(parts)).toEqual(Float32Array.of(1, 2, 3, 4, 5));
});
