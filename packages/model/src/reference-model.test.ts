import { open } from "node:fs/promises";
import { expect, test } from "vitest";
import { randomInput, temporaryDirectory, TINY_SPEC } from "../test/tiny-spec.ts";
import type { Bundle } from "./bundle.ts";
import { exportBundle } from "./export-bundle.ts";
import type { ModelSpec } from "./model-spec.ts";
import { openReference, type ReferenceInput } from "./reference-model.ts";
import { readTensors, type Tensor } from "./safetensors-reader.ts";

async function tinyBundle(spec: ModelSpec = TINY_SPEC): Promise<Bundle> {
  return exportBundle({ spec, seed: 1, dir: await temporaryDirectory(), buckets: [1] });
}

/** The definition once more, one example at a time over nested arrays. */
async function naiveScores(bundle: Bundle, input: ReferenceInput, scoring: "network" | "simulated"): Promise<number[]> {
  const { spec } = bundle;
  const tables = await readTensors(bundle.paths.tables);
  const dense = await readTensors(bundle.paths.dense);
  const vector = (name: string): number[] => [...(dense.get(name) as Tensor).data];
  const matrix = (tensor: Tensor): number[][] => {
    const width = tensor.shape[1] as number;
    return Array.from({ length: tensor.shape[0] as number }, (_, row) => [
      ...tensor.data.subarray(row * width, (row + 1) * width),
    ]);
  };
  const times = (x: readonly number[], name: string): number[] => {
    const w = matrix(dense.get(name) as Tensor);
    return (w[0] as number[]).map((_, output) =>
      x.reduce((sum, value, i) => sum + value * (w[i]?.[output] as number), 0),
    );
  };
  const add = (x: readonly number[], y: readonly number[]): number[] => x.map((value, i) => value + (y[i] as number));
  const multiply = (x: readonly number[], y: readonly number[]): number[] =>
    x.map((value, i) => value * (y[i] as number));
  const relu = (x: readonly number[]): number[] => x.map((value) => Math.max(0, value));
  const dot = (x: readonly number[], y: readonly number[]): number =>
    multiply(x, y).reduce((sum, value) => sum + value, 0);

  return Array.from({ length: input.batch }, (_, example) => {
    const features = [...input.dense.subarray(example * spec.denseFeatures, (example + 1) * spec.denseFeatures)];
    const pooled = spec.features.flatMap(({ name, hotSize }, index) => {
      const rows = matrix(tables.get(name) as Tensor);
      const bag = [...(input.ids[index] as Int32Array).subarray(example * hotSize, (example + 1) * hotSize)];
      return bag.map((id) => rows[id] as number[]).reduce(add);
    });
    if (scoring === "simulated") {
      return 1 / (1 + Math.exp(-dot(features, vector("simulated.w")) - dot(pooled, vector("simulated.v"))));
    }
    let z = features;
    for (const layer of spec.denseNetwork.bottomMlp.keys()) {
      z = relu(add(times(z, `bottom_mlp.${layer}.weight`), vector(`bottom_mlp.${layer}.bias`)));
    }
    const x0 = [...z, ...pooled];
    let x = x0;
    for (let layer = 0; layer < spec.denseNetwork.crossLayers; layer++) {
      const crossed = add(times(times(x, `cross.${layer}.v`), `cross.${layer}.u`), vector(`cross.${layer}.bias`));
      x = add(multiply(x0, crossed), x);
    }
    for (const layer of spec.denseNetwork.topMlp.keys()) {
      x = add(times(layer > 0 ? relu(x) : x, `top_mlp.${layer}.weight`), vector(`top_mlp.${layer}.bias`));
    }
    return 1 / (1 + Math.exp(-(x[0] as number)));
  });
}

test.each(["network", "simulated"] as const)(
  "%s scores are those of the definition, one or many at once",
  async (scoring) => {
    const bundle = await tinyBundle();
    const reference = await openReference(bundle);
    for (const batch of [1, 8, 21]) {
      const input = randomInput(TINY_SPEC, batch, batch);
      const found = await reference.forward(input, scoring);
      const expected = await naiveScores(bundle, input, scoring);
      expect(found).toHaveLength(batch);
      for (const [index, score] of expected.entries()) expect(found[index]).toBeCloseTo(score, 12);
    }
    await reference.close();
  },
);

test("an id that is in a bag twice counts twice", async () => {
  const bundle = await tinyBundle();
  const reference = await openReference(bundle);
  const input = {
    ...randomInput(TINY_SPEC, 1, 1),
    ids: [Int32Array.of(6), Int32Array.of(9, 9, 9, 1499), Int32Array.of(0, 0)],
  };
  const [found] = await reference.forward(input, "network");
  expect(found).toBeCloseTo((await naiveScores(bundle, input, "network"))[0] as number, 12);
  await reference.close();
});

test("rows are read again after the cache is full and forgotten", async () => {
  // 70,000 rows of 1 KiB do not fit in the 64 MiB that are kept.
  const spec: ModelSpec = {
    ...TINY_SPEC,
    embeddingDim: 256,
    features: [{ name: "wide", vocabularySize: 70_000, hotSize: 7000, pooling: "sum" }],
    denseNetwork: { bottomMlp: [256], crossLayers: 0, crossProjection: 1, topMlp: [1] },
  };
  const reference = await openReference(await tinyBundle(spec));
  const all = { batch: 10, dense: new Float32Array(30), ids: [Int32Array.from({ length: 70_000 }, (_, id) => id)] };
  const first = await reference.forward(all, "simulated");
  const some = { batch: 1, dense: new Float32Array(3), ids: [Int32Array.from({ length: 7000 }, (_, id) => id)] };
  expect((await reference.forward(some, "simulated"))[0]).toBe(first[0]);
  expect(await reference.forward(all, "simulated")).toEqual(first);
  await reference.close();
});

test("only rows that are needed are read: the rest of the file may be gone", async () => {
  const bundle = await tinyBundle();
  const reference = await openReference(bundle);
  const input = {
    batch: 1,
    dense: new Float32Array(3),
    ids: [Int32Array.of(0), Int32Array.of(0, 1, 2, 3), Int32Array.of(0, 0)],
  };
  const before = await reference.forward(input, "simulated");
  await reference.close();
  const file = await open(bundle.paths.tables, "r+");
  const { size } = await file.stat();
  const again = await openReference(bundle);
  // `constant` is the last table and stays; the end of `clicks` goes.
  await file.write(new Uint8Array(20_000).fill(255), 0, 20_000, size - 4096 - 20_000);
  await file.close();
  expect(await again.forward(input, "simulated")).toEqual(before);
  await again.close();
});

test.each<[string, Partial<ReferenceInput>, string]>([
  ["no examples", { batch: 0 }, "batch: expected a positive integer, got 0"],
  ["dense features of another length", { dense: new Float32Array(5) }, "dense: expected 6 values [2, 3], got 5"],
  [
    "ids of a feature missing",
    { ids: [new Int32Array(2), new Int32Array(8)] },
    "ids: expected 3 arrays, one a feature, got 2",
  ],
  [
    "a bag too short",
    { ids: [new Int32Array(2), new Int32Array(7), new Int32Array(4)] },
    "clicks: expected 8 ids [2, 4], got 7",
  ],
  [
    "an id past the end",
    { ids: [new Int32Array(2), Int32Array.of(0, 0, 0, 0, 0, 0, 1500, 0), new Int32Array(4)] },
    "clicks: expected ids from 0 to 1499, got 1500 (example 1, position 2)",
  ],
  [
    "a negative id",
    { ids: [Int32Array.of(0, -1), new Int32Array(8), new Int32Array(4)] },
    "country: expected ids from 0 to 6, got -1 (example 1, position 0)",
  ],
])("%s is refused", async (_name, change, message) => {
  const reference = await openReference(await tinyBundle());
  await expect(reference.forward({ ...randomInput(TINY_SPEC, 2, 1), ...change }, "network")).rejects.toMatchObject({
    code: "invalid_input",
    message,
  });
  await reference.close();
});

test("a bundle whose tables do not fit its spec is refused", async () => {
  const bundle = await tinyBundle();
  const features = TINY_SPEC.features.map((feature) => ({ ...feature, vocabularySize: 7 }));
  await expect(openReference({ ...bundle, spec: { ...TINY_SPEC, features } })).rejects.toMatchObject({
    code: "invalid_bundle",
    message: `${bundle.paths.tables}: table clicks: expected F32 [7, 5], got F32 [1500, 5]`,
  });
});
