import { describe, expect, test } from "vitest";
import { interactionWidth } from "./dense-weights.ts";
import { modelSpecProblems } from "./model-spec.ts";
import { PRESET_NAMES, presetSpec } from "./presets.ts";

const totalRows = (name: string, maxVocabSize?: number): number =>
  presetSpec(name, { maxVocabSize }).features.reduce((sum, { vocabularySize }) => sum + vocabularySize, 0);

describe.each(PRESET_NAMES)("%s", (name) => {
  test("is valid and named like the preset", () => {
    expect(modelSpecProblems(presetSpec(name))).toEqual([]);
    expect(presetSpec(name).name).toBe(name);
  });

  test("reads 214 rows of 128 an example from 26 tables, and has 13 dense features", () => {
    const spec = presetSpec(name);
    expect(spec.features.map(({ name: feature }) => feature)).toEqual(
      Array.from({ length: 26 }, (_, i) => `sparse_${i}`),
    );
    expect(spec.features.reduce((sum, { hotSize }) => sum + hotSize, 0)).toBe(214);
    expect([spec.embeddingDim, spec.denseFeatures, interactionWidth(spec)]).toEqual([128, 13, 3456]);
  });
});

test("dcnv2-6m has 6.2 million rows, 3.18 GB", () => {
  expect(totalRows("dcnv2-6m")).toBe(6_216_632);
  expect(totalRows("dcnv2-lite")).toBe(6_216_632);
});

test("the cap bounds every table, and only those above it", () => {
  expect(totalRows("dcnv2-smoke")).toBe(18_369);
  expect(totalRows("dcnv2-6m", 1000)).toBe(18_369);
  expect(totalRows("dcnv2-smoke", 1)).toBe(26);
  // MLPerf's own sizes: 204 million rows.
  expect(totalRows("dcnv2-6m", 40_000_000)).toBe(204_184_588);
  expect(presetSpec("dcnv2-smoke", { maxVocabSize: 10 }).features[5]?.vocabularySize).toBe(3);
});

test("unknown presets and impossible caps are refused", () => {
  expect(() => presetSpec("dcnv2")).toThrow(
    'unknown preset "dcnv2", expected one of dcnv2-6m, dcnv2-smoke, dcnv2-lite',
  );
  expect(() => presetSpec("toString")).toThrow('unknown preset "toString"');
  for (const maxVocabSize of [0, -1, 1.5, Number.NaN]) {
    expect(() => presetSpec("dcnv2-6m", { maxVocabSize })).toThrow(
      `maxVocabSize: expected a positive integer, got ${maxVocabSize}`,
    );
  }
});
