import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { allocateTensor, openDevice, type PjrtSpec } from "@dlrm/accelerator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DENSE_INPUTS, DENSE_OUTPUTS, Examples, exportDenseNetwork, type DenseNetwork } from "./dense-network.ts";
import { maxDifference } from "./open-devices.ts";
import { PROGRAM_CACHE, TEST_PLUGINS, whatIsMissing } from "./test-plugins.ts";

const BUCKETS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const EXAMPLES = new Examples(24);

let folder: string;
let network: DenseNetwork;
let wanted: readonly number[];
let inputs: ReturnType<Examples["batch"]>;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "dlrm-pjrt-bundle-"));
  network = await exportDenseNetwork(path.join(folder, "bundle"), BUCKETS);
  wanted = EXAMPLES.scores(network);
  inputs = EXAMPLES.batch(BUCKETS.at(-1)!);
});
afterAll(() => rm(folder, { recursive: true }));

function specOf(pluginPath: string, precision: "float32" | "bfloat16"): PjrtSpec {
  return {
    kind: "pjrt",
    pluginPath,
    program: (bucket) => network.programs.get(bucket)!,
    buckets: BUCKETS,
    inputs: DENSE_INPUTS,
    outputs: DENSE_OUTPUTS,
    weights: network.weightNames.map((name) => network.weights.get(name)!.data),
    precision,
    warmUpBudgetMs: 0,
    // Kept from run to run, by what the programs say: they are compiled in the first.
    cacheDir: PROGRAM_CACHE,
  };
}

describe.each(TEST_PLUGINS)("$name", (plugin) => {
  const missing = whatIsMissing(plugin);
  const because = missing === undefined ? "" : ` (skipped: needs ${missing})`;

  test.skipIf(missing !== undefined).each([
    ["float32", 1e-5],
    ["bfloat16", 5e-3],
  ] as const)(
    `DLRM-DCNv2's dense network in %s is exact to %d at every bucket, its inputs not copied${because}`,
    async (precision, tolerance) => {
      const device = await openDevice(specOf(plugin.pluginPath, precision));
      const errors = new Map<number, number>();
      for (const bucket of BUCKETS) {
        const scores = allocateTensor(bucket).fill(-1);
        await device.execute(bucket, inputs, { scores });
        const expected = Array.from({ length: bucket }, (_, row) => wanted[row % EXAMPLES.count]!);
        errors.set(bucket, maxDifference(scores, expected));
      }
      expect([...errors].filter(([, error]) => !(error <= tolerance))).toEqual([]);
      expect(device.stats.inputTransfers).toEqual({ inPlace: 2 * BUCKETS.length, copied: 0 });
      expect(device.precision.name).toBe(precision);
      // What opening the device reports, on inputs of its own.
      expect(device.precision.error?.maxAbs ?? 0).toBeLessThanOrEqual(tolerance);
      await device.close();
    },
    300_000,
  );
});

test("the examples' scores are all different", () => {
  expect(new Set(wanted).size).toBe(EXAMPLES.count);
});
