import { expect, test } from "vitest";
import { TINY_SPEC } from "../test/tiny-spec.ts";
import { ModelError } from "./model-error.ts";
import { modelSpecProblems, validateModelSpec } from "./model-spec.ts";

test("a valid spec comes back equal, as a copy", () => {
  const spec = validateModelSpec(JSON.parse(JSON.stringify(TINY_SPEC)));
  expect(spec).toEqual(TINY_SPEC);
  expect(spec.features[0]).not.toBe(TINY_SPEC.features[0]);
});

test("all problems are reported at once, each with its place, what was expected and what came", () => {
  const spec = {
    name: "",
    embeddingDim: 8,
    denseFeatures: 0,
    features: [
      { name: "a", vocabularySize: 10, hotSize: 1, pooling: "sum" },
      { name: "a", vocabularySize: 1.5, hotSize: "2", pooling: "mean" },
      { name: "dense", vocabularySize: 2 ** 31, hotSize: 1, pooling: "sum", weight: 1 },
      7,
    ],
    denseNetwork: { bottomMlp: [4], crossLayers: -1, crossProjection: 0, topMlp: [] },
  };
  const name = `expected 1 to 128 letters, digits, ".", "_" or "-", starting with a letter or digit`;
  expect(modelSpecProblems(spec)).toEqual([
    `name: ${name}, got ""`,
    "denseFeatures: expected an integer from 1 to 1048576, got 0",
    `features[1].name: "a" is the name of features[0] already`,
    "features[1].vocabularySize: expected an integer from 1 to 2147483647, got 1.5",
    `features[1].hotSize: expected an integer from 1 to 1048576, got "2"`,
    `features[1].pooling: expected "sum", got "mean"`,
    `features[2]: unknown field "weight", expected only name, vocabularySize, hotSize, pooling`,
    `features[2].name: "dense" is the name of the dense input`,
    "features[2].vocabularySize: expected an integer from 1 to 2147483647, got 2147483648",
    "features[3]: expected an object with the fields name, vocabularySize, hotSize, pooling, got 7",
    "denseNetwork.bottomMlp: the last width must be embeddingDim (8), got 4",
    "denseNetwork.crossLayers: expected an integer from 0 to 256, got -1",
    "denseNetwork.crossProjection: expected an integer from 1 to 1048576, got 0",
    "denseNetwork.topMlp: expected a list of 1 to 256 layer widths, got an empty list",
  ]);
});

test.each([
  [
    "nothing",
    undefined,
    "spec: expected an object with the fields name, embeddingDim, denseFeatures, features, denseNetwork, got nothing",
  ],
  [
    "a list",
    [],
    "spec: expected an object with the fields name, embeddingDim, denseFeatures, features, denseNetwork, got an empty list",
  ],
  [
    "a number",
    Number.NaN,
    "spec: expected an object with the fields name, embeddingDim, denseFeatures, features, denseNetwork, got NaN",
  ],
])("%s is no spec", (_what, value, problem) => {
  expect(modelSpecProblems(value)).toEqual([problem]);
});

test.each<[string, object, string]>([
  ["no feature", { features: [] }, "features: expected a list of 1 to 4096 features, got an empty list"],
  ["a missing field", { embeddingDim: undefined }, "embeddingDim: expected an integer from 1 to 1048576, got nothing"],
  [
    "a top MLP that does not end in the score",
    { denseNetwork: { ...TINY_SPEC.denseNetwork, topMlp: [4, 2] } },
    "denseNetwork.topMlp: the last width must be 1 (the score), got 2",
  ],
  [
    "a layer of no width",
    { denseNetwork: { ...TINY_SPEC.denseNetwork, bottomMlp: [0, 5] } },
    "denseNetwork.bottomMlp[0]: expected an integer from 1 to 1048576, got 0",
  ],
])("%s is the only problem of an otherwise valid spec", (_what, change, problem) => {
  expect(modelSpecProblems({ ...TINY_SPEC, ...change })).toEqual([problem]);
});

test("validation throws an error that lists the problems", () => {
  const validate = (): unknown => validateModelSpec({ ...TINY_SPEC, name: "a/b", denseFeatures: 2.5 });
  expect(validate).toThrow(ModelError);
  expect(validate).toThrow(
    expect.objectContaining({
      code: "invalid_spec",
      message: expect.stringMatching(
        /^the model spec is not valid:\n- name: .*got "a\/b"\n- denseFeatures: .*got 2.5$/,
      ) as string,
    }),
  );
});
