import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { allocateTensor, openDevice, type PjrtSpec } from "@dlrm/accelerator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BUCKETS, V, W, expectedScores, makeBatch, maxDifference, shared } from "../test/open-devices.ts";
import { pjrtSpec, rankingProgram } from "../test/pjrt-fixture.ts";
import { TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "dlrm-pjrt-"));
});
afterAll(() => rm(folder, { recursive: true }));

describe.each(TEST_PLUGINS)("$name", (plugin) => {
  const missing = whatIsMissing(plugin);
  const because = missing === undefined ? "" : ` (skipped: needs ${missing})`;
  const spec = pjrtSpec(plugin.pluginPath);

  test.skipIf(missing !== undefined)(`scores are exact at every bucket${because}`, async () => {
    const steps: string[] = [];
    const device = await openDevice({
      ...spec,
      onProgress: ({ phase, bucket, done, total }) => steps.push(`${done}/${total} ${phase} ${bucket ?? ""}`),
    });
    for (const bucket of BUCKETS) {
      const batch = makeBatch(bucket, bucket);
      await device.execute(bucket, batch.inputs, batch.outputs);
      expect(maxDifference(batch.outputs.scores, expectedScores(batch, bucket))).toBeLessThan(1e-6);
    }
    expect(device.name).toBe(`PJRT cpu (API ${plugin.apiVersion})`);
    expect([device.kind, device.platform, device.precision.name]).toEqual(["pjrt", "cpu", "float32"]);
    expect(device.stats).toMatchObject({ executions: BUCKETS.length, failures: 0, inFlight: 0 });
    await device.close();
    expect(steps).toEqual([
      "1/7 compile 1",
      "2/7 compile 2",
      "3/7 compile 8",
      "4/7 load ",
      "5/7 warm-up 1",
      "6/7 warm-up 2",
      "7/7 warm-up 8",
    ]);
  });

  test.skipIf(missing !== undefined).each<[string, Partial<PjrtSpec>, string, RegExp]>([
    [
      "a corrupt program",
      { program: () => "module {" },
      "model_invalid",
      /the program of bucket 1 is not right: .*error/s,
    ],
    [
      "bytes that are no program",
      { program: () => Uint8Array.of(0x4d, 0x4c, 0xef, 0x52, 0xff) },
      "model_invalid",
      /the program of bucket 1 is not right/,
    ],
    [
      "a missing weight",
      { weights: [W] },
      "model_mismatch",
      /^the program of bucket 1 takes 4 arguments; the spec has 2 inputs and 1 weights$/,
    ],
    [
      "a weight of another length",
      { weights: [W, W] },
      "model_mismatch",
      /^the program of bucket 1 takes tensor<6xf32> as weight 1; the spec has 4 float32 numbers$/,
    ],
    [
      "an input of other dimensions and as many bytes",
      {
        inputs: [
          { name: "dense", width: [4] },
          { name: "pooled", width: [3, 2] },
        ],
      },
      "model_mismatch",
      /^the program of bucket 1 has tensor<1x2x3xf32> as input "pooled" \(6 numbers\), expected tensor<1x3x2xf32>$/,
    ],
    [
      "an input of another type and as many bytes",
      {
        program: (bucket) =>
          rankingProgram(bucket)
            .replaceAll(`${bucket}x4xf32`, `${bucket}x4xi32`)
            .replace(
              "%1 = ",
              `%f = stablehlo.convert %dense : (tensor<${bucket}x4xi32>) -> tensor<${bucket}x4xf32>\n%1 = `,
            )
            .replace("dot_general %dense", "dot_general %f")
            .replace(`: (tensor<${bucket}x4xi32>, tensor<4xf32>)`, `: (tensor<${bucket}x4xf32>, tensor<4xf32>)`),
      },
      "model_mismatch",
      /^the program of bucket 1 has tensor<1x4xi32> as input "dense" \(4 numbers\), expected tensor<1x4xf32>$/,
    ],
    [
      "an output too many",
      {
        outputs: [
          { name: "scores", width: [] },
          { name: "more", width: [] },
        ],
      },
      "model_mismatch",
      /^the program of bucket 1 returns 1 tensors; the spec has 2 outputs$/,
    ],
    [
      "an output of other dimensions",
      { outputs: [{ name: "scores", width: [1] }] },
      "model_mismatch",
      /^the program of bucket 1 has tensor<1xf32> as output "scores" \(1 numbers\), expected tensor<1x1xf32>$/,
    ],
    [
      "a program of another bucket",
      { program: () => rankingProgram(2) },
      "model_mismatch",
      /^the program of bucket 1 has tensor<2x4xf32> as input "dense" \(4 numbers\), expected tensor<1x4xf32>$/,
    ],
  ])(`refuses %s${because}`, async (_what, change, code, message) => {
    await expect(openDevice({ ...spec, ...change })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as unknown,
    });
  });

  test.skipIf(missing !== undefined)(
    `compiled programs are kept, by program, and damaged ones are made anew${because}`,
    async () => {
      const cacheDir = path.join(folder, `cache-${plugin.apiVersion}`);
      const check = async (change: Partial<PjrtSpec> = {}): Promise<void> => {
        const device = await openDevice({ ...spec, buckets: [2], cacheDir, ...change });
        const batch = makeBatch(2);
        await device.execute(2, batch.inputs, batch.outputs);
        expect(maxDifference(batch.outputs.scores, expectedScores(batch, 2))).toBeLessThan(1e-6);
        await device.close();
      };
      await check();
      const files = await readdir(cacheDir);
      expect(files).toHaveLength(1);
      const file = path.join(cacheDir, files[0]!);
      const whole = await readFile(file);
      // Only a file that was read is not written again: a marker survives.
      await check();
      expect(await readFile(file)).toEqual(whole);
      await writeFile(file, whole.subarray(0, whole.length - 1));
      await check();
      expect((await readFile(file)).length).toBeGreaterThanOrEqual(whole.length - 64);
      await check({ program: (bucket) => `${rankingProgram(bucket)}// another\n` });
      expect(await readdir(cacheDir)).toHaveLength(2);
    },
  );

  test.skipIf(missing !== undefined)(
    `inputs at multiples of 64 bytes are read in place, others copied${because}`,
    async () => {
      const device = await openDevice(spec);
      const roomy = allocateTensor(64);
      const aligned = { dense: roomy.subarray(0, 32), pooled: allocateTensor(48) };
      const scores = shared(8);
      for (let i = 0; i < 3; i++) await device.execute(8, aligned, { scores });
      expect(device.stats.inputTransfers).toEqual({ inPlace: 6, copied: 0 });
      await device.execute(8, { ...aligned, dense: roomy.subarray(4, 36) }, { scores });
      expect(device.stats.inputTransfers).toEqual({ inPlace: 7, copied: 1 });
      await device.close();
    },
  );

  test.skipIf(missing !== undefined)(
    `bfloat16 rounds products, and says by how much scores differ${because}`,
    async () => {
      const device = await openDevice({ ...spec, precision: "bfloat16" });
      const batch = makeBatch(8);
      await device.execute(8, batch.inputs, batch.outputs);
      const difference = maxDifference(batch.outputs.scores, expectedScores(batch, 8));
      // The weights of these tests are bfloat16 numbers already, their inputs are not.
      expect(difference).toBeLessThan(5e-3);
      expect(difference).toBeGreaterThan(1e-6);
      expect(device.name).toBe(`PJRT cpu (API ${plugin.apiVersion}, bfloat16)`);
      const { name, error } = device.precision;
      expect([name, error?.rows]).toEqual(["bfloat16", 8]);
      expect(error!.maxAbs).toBeLessThan(5e-3);
      expect(error!.meanAbs).toBeGreaterThan(1e-6);
      await device.close();
      await expect(
        openDevice({ ...spec, precision: "bfloat16", program: () => Uint8Array.of(1) }),
      ).rejects.toMatchObject({ code: "invalid_spec" });
    },
  );

  test.skipIf(missing !== undefined)(`10,000 calls leave no memory behind${because}`, async () => {
    const width = 4096;
    const device = await openDevice({
      ...spec,
      buckets: [8],
      program: (bucket) => rankingProgram(bucket, width),
      inputs: [{ name: "dense", width: [width] }, spec.inputs[1]!],
      weights: [new Float32Array(width).fill(1 / width), V],
    });
    const { inputs, outputs } = makeBatch(8);
    // One that is copied, one that is read in place: of both nothing may stay.
    const copied = allocateTensor(8 * width + 4)
      .subarray(4)
      .fill(1);
    for (const dense of [copied, allocateTensor(8 * width).fill(1)]) {
      const run = async (calls: number): Promise<void> => {
        for (let i = 0; i < calls; i++) await device.execute(8, { ...inputs, dense }, outputs);
      };
      await run(500);
      const before = process.memoryUsage.rss();
      await run(5000);
      // Inputs that stayed would be 655 MB.
      expect(process.memoryUsage.rss() - before).toBeLessThan(32_000_000);
    }
    const plain = expectedScores({ ...makeBatch(8), inputs: { ...inputs, dense: shared(8 * 4) } }, 8);
    const wanted = plain.map((score) => 1 / (1 + Math.exp(-(Math.log(score / (1 - score)) + 1))));
    expect(maxDifference(outputs.scores, wanted)).toBeLessThan(1e-6);
    await device.close();
  });

  test.skipIf(missing !== undefined)(
    `devices open and close again and again, and two at a time share a client${because}`,
    async () => {
      const one = await openDevice(spec);
      const two = await openDevice(spec);
      await one.close();
      const batch = makeBatch(1);
      await two.execute(1, batch.inputs, batch.outputs);
      expect(maxDifference(batch.outputs.scores, expectedScores(batch, 1))).toBeLessThan(1e-6);
      await two.close();
      for (let i = 0; i < 5; i++) {
        const device = await openDevice({ ...spec, buckets: [1] });
        await device.close();
      }
    },
  );
});

test("a device without its plugin says so", async () => {
  const missing = path.join(folder, "missing.so");
  const noPlugin = path.join(folder, "text.so");
  await writeFile(noPlugin, "text");
  const opening = (pluginPath: string) => openDevice({ ...pjrtSpec(pluginPath), weights: [W, V] });
  const built = whatIsMissing(TEST_PLUGINS[0]!) !== "the PJRT binding (node native/build.mts)";
  await expect(opening(missing)).rejects.toMatchObject({ code: built ? "plugin_not_found" : "not_installed" });
  await expect(opening(noPlugin)).rejects.toMatchObject({ code: built ? "plugin_invalid" : "not_installed" });
});
