import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { allocateTensor, openDevice } from "@dlrm/accelerator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { maxDifference } from "./open-devices.ts";
import { TEST_PLUGINS, whatIsMissing } from "./test-plugins.ts";

// The dense network that @dlrm/model emits, against a plain float64 forward written here.

const BUCKETS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const DENSE = 13;
const [FEATURES, DIM] = [26, 128];
/** Rows differ only so far: row i of any batch is example i modulo this, so that one reference serves all buckets. */
const EXAMPLES = 24;

interface Weight {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

let folder: string;
let programs: Map<number, string>;
let weightNames: readonly string[];
let weights: ReadonlyMap<string, Weight>;
let dense: Float32Array;
let pooled: Float32Array;
let wanted: number[];

function readWeights(file: Buffer): Map<string, Weight> {
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString("utf8", 8, 8 + headerBytes)) as Record<
    string,
    { shape: number[]; data_offsets: [number, number] }
  >;
  const found = new Map<string, Weight>();
  for (const [name, { shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name.startsWith("__")) continue;
    const [from, to] = offsets.map((offset) => 8 + headerBytes + offset) as [number, number];
    found.set(name, { shape, data: new Float32Array(new Uint8Array(file.subarray(from, to)).buffer) });
  }
  return found;
}

function linear(x: readonly number[], name: string, bias?: string): number[] {
  const { shape, data } = weights.get(name)!;
  const [inputs, outputs] = shape as [number, number];
  const y = Array.from({ length: outputs }, (_, o) => (bias === undefined ? 0 : weights.get(bias)!.data[o]!));
  for (let i = 0; i < inputs; i++) for (let o = 0; o < outputs; o++) y[o]! += x[i]! * data[i * outputs + o]!;
  return y;
}

const relu = (x: readonly number[]): number[] => x.map((value) => Math.max(0, value));

function score(example: number): number {
  const has = (name: string): boolean => weights.has(name);
  let z = [...dense.subarray(example * DENSE, (example + 1) * DENSE)];
  for (let i = 0; has(`bottom_mlp.${i}.weight`); i++)
    z = relu(linear(z, `bottom_mlp.${i}.weight`, `bottom_mlp.${i}.bias`));
  const x0 = [...z, ...pooled.subarray(example * FEATURES * DIM, (example + 1) * FEATURES * DIM)];
  let x = x0;
  for (let i = 0; has(`cross.${i}.v`); i++) {
    const crossed = linear(linear(x, `cross.${i}.v`), `cross.${i}.u`, `cross.${i}.bias`);
    x = x.map((value, at) => x0[at]! * crossed[at]! + value);
  }
  for (let i = 0; has(`top_mlp.${i}.weight`); i++) {
    x = linear(i > 0 ? relu(x) : x, `top_mlp.${i}.weight`, `top_mlp.${i}.bias`);
  }
  return 1 / (1 + Math.exp(-x[0]!));
}

/** The same numbers in ±1 every time. */
function uniform(length: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "dlrm-pjrt-bundle-"));
  const cli = path.join(import.meta.dirname, "../../model/src/cli.ts");
  const bundle = path.join(folder, "bundle");
  const args = [
    "--conditions=@dlrm/source",
    cli,
    "export",
    "--preset",
    "dcnv2-smoke",
    "--max-vocab-size",
    "3",
    "--quiet",
  ];
  await promisify(execFile)(process.execPath, [...args, "--out", bundle, "--buckets", BUCKETS.join(",")]);
  const text = await readFile(path.join(bundle, "dense.stablehlo.mlir"), "utf8");
  weightNames = /^\/\/ arguments: dense pooled (.*)$/m.exec(text)![1]!.split(" ");
  programs = new Map(
    text.split("// -----\n").map((module) => [Number(/module @dense_b(\d+)/.exec(module)![1]), module]),
  );
  weights = readWeights(await readFile(path.join(bundle, "dense.safetensors")));
  dense = uniform(EXAMPLES * DENSE, 1);
  // As wide as sums of bags of these models' tables, whose rows are uniform in ±0.5 / √hotSize.
  pooled = uniform(EXAMPLES * FEATURES * DIM, 2).map((value) => value / 2);
  wanted = Array.from({ length: EXAMPLES }, (_, example) => score(example));
});
afterAll(() => rm(folder, { recursive: true }));

describe.each(TEST_PLUGINS)("$name", (plugin) => {
  const missing = whatIsMissing(plugin);
  const because = missing === undefined ? "" : ` (skipped: needs ${missing})`;

  test.skipIf(missing !== undefined).each([
    { precision: "float32", tolerance: 1e-5, buckets: BUCKETS },
    // Products of one row take XLA's CPU compiler another, slow way.
    { precision: "bfloat16", tolerance: 1e-2, buckets: [16, 128] },
  ] as const)(
    `DLRM-DCNv2's dense network in $precision is exact to $tolerance at buckets $buckets, its inputs not copied${because}`,
    async ({ precision, tolerance, buckets }) => {
      const largest = buckets.at(-1)!;
      const device = await openDevice({
        kind: "pjrt",
        pluginPath: plugin.pluginPath,
        program: (bucket) => programs.get(bucket)!,
        buckets,
        inputs: [
          { name: "dense", width: [DENSE] },
          { name: "pooled", width: [FEATURES, DIM] },
        ],
        outputs: [{ name: "scores", width: [] }],
        weights: weightNames.map((name) => weights.get(name)!.data),
        precision,
        warmUpBudgetMs: 0,
        cacheDir: false,
      });
      const inputs = { dense: allocateTensor(largest * DENSE), pooled: allocateTensor(largest * FEATURES * DIM) };
      for (let row = 0; row < largest; row++) {
        const example = row % EXAMPLES;
        inputs.dense.set(dense.subarray(example * DENSE, (example + 1) * DENSE), row * DENSE);
        inputs.pooled.set(
          pooled.subarray(example * FEATURES * DIM, (example + 1) * FEATURES * DIM),
          row * FEATURES * DIM,
        );
      }
      const errors: number[] = [];
      for (const bucket of buckets) {
        const scores = allocateTensor(bucket).fill(-1);
        await device.execute(bucket, inputs, { scores });
        errors.push(
          maxDifference(
            scores,
            Array.from({ length: bucket }, (_, row) => wanted[row % EXAMPLES]!),
          ),
        );
      }
      expect(Math.max(...errors)).toBeLessThanOrEqual(tolerance);
      expect(new Set(wanted).size).toBe(EXAMPLES);
      expect(device.stats.inputTransfers).toEqual({ inPlace: 2 * buckets.length, copied: 0 });
      await device.close();
    },
    300_000,
  );
});
