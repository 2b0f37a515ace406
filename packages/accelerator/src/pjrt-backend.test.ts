import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { allocateTensor, openDevice, type PjrtSpec } from "@dlrm/accelerator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BUCKETS, V, W, expectedScores, makeBatch, maxDifference, shared, type Batch } from "../test/open-devices.ts";
import { pjrtSettings, pjrtSpec, RANKING_BYTECODE, rankingProgram } from "../test/pjrt-fixture.ts";
import { TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";
import { PjrtBackend } from "./pjrt-backend.ts";
import { loadPjrtNative, type PjrtClient, type PjrtLiveObjects, type PjrtNative } from "./pjrt-native.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "dlrm-pjrt-"));
});
afterAll(() => rm(folder, { recursive: true }));

function native(): PjrtNative {
  const loaded = loadPjrtNative();
  if ("binding" in loaded) return loaded.binding;
  throw new Error(loaded.whyNot);
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Resident memory without what is only not collected yet. */
function residentBytes(): number {
  collectGarbage();
  return process.memoryUsage.rss();
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** By how much the second half of the samples is above the first: a jump at one sample is no growth. */
function growth(samples: readonly number[]): number {
  const half = samples.length >> 1;
  return median(samples.slice(half)) - median(samples.slice(0, half));
}

const THIRDS: Float32Array = new Float32Array(6).fill(1 / 3);

/** Dimensions of the inputs of `rankingProgram(2)`. */
const RANKING_INPUTS = [
  [2, 4],
  [2, 2, 3],
];

const NOTHING: PjrtLiveObjects = { clients: 0, executables: 0, buffers: 0, events: 0 };

/** Runs one batch on the backend, on this thread. */
function run(backend: PjrtBackend, bucket: number, { inputs, outputs }: Batch): void {
  backend.run(bucket, [inputs.dense, inputs.pooled], [outputs.scores]);
}

describe.each(TEST_PLUGINS)("$name", (plugin) => {
  const missing = whatIsMissing(plugin);
  const because = missing === undefined ? "" : ` (skipped: needs ${missing})`;
  const spec = pjrtSpec(plugin.pluginPath);

  // First, while nothing else has the plugin open.
  test.skipIf(missing !== undefined)(`opening and closing 100 times leaves nothing${because}`, async () => {
    const settings = pjrtSettings(plugin.pluginPath, { buckets: [2], cacheDir: path.join(folder, "cycles") });
    const batch = makeBatch(2);
    const resident: number[] = [];
    for (let cycle = 0; cycle < 100; cycle++) {
      const backend = PjrtBackend.open(settings, () => {});
      run(backend, 2, batch);
      // The program, its two weights and their client.
      expect(native().liveObjects()).toEqual({ clients: 1, executables: 1, buffers: 2, events: 0 });
      await backend.close();
      expect(native().liveObjects()).toEqual(NOTHING);
      if (cycle >= 20 && cycle % 5 === 0) resident.push(residentBytes());
    }
    expect(maxDifference(batch.outputs.scores, expectedScores(batch, 2))).toBeLessThan(1e-6);
    // Some 100 KB a cycle would be 4 MB between the halves' medians; the allocator alone moves by one or two.
    expect(growth(resident)).toBeLessThan(4_000_000);
  });

  describe("with a client that is held, which makes opening others quick", () => {
    let client: PjrtClient | undefined;
    beforeAll(() => {
      const { createOptions, environment } = pjrtSettings(plugin.pluginPath);
      if (missing === undefined) client = native().openClient(plugin.pluginPath, createOptions, environment);
    });
    afterAll(() => {
      if (client !== undefined) native().free(client);
    });

    test.skipIf(missing !== undefined)(`MLIR bytecode runs as the text it was made of${because}`, async () => {
      const settings = pjrtSettings(plugin.pluginPath, { buckets: [2], program: () => RANKING_BYTECODE });
      const backend = PjrtBackend.open(settings, () => {});
      const batch = makeBatch(2);
      run(backend, 2, batch);
      expect(maxDifference(batch.outputs.scores, expectedScores(batch, 2))).toBeLessThan(1e-6);
      await backend.close();
    });

    test.skipIf(missing !== undefined)(
      `what was freed, and tensors that are too few or short, are refused${because}`,
      () => {
        const binding = native();
        const options = Uint8Array.of(0x1a, 4, 0x20, 1, 0x28, 1);
        const executable = binding.compile(client!, Buffer.from(rankingProgram(2)), options);
        const [w, v] = [binding.upload(client!, W, "float32", [4]), binding.upload(client!, V, "float32", [6])];
        const { inputs, outputs } = makeBatch(2);
        const [x, y] = [[inputs.dense, inputs.pooled], [outputs.scores]];
        binding.bind(executable, RANKING_INPUTS, [w, v]);
        expect(() => binding.upload(client!, W, "float32", [5])).toThrow("16 bytes, but its dimensions say 20");
        expect(() => binding.upload(client!, W, "float32", [-4])).toThrow("a dimension is negative");
        expect(() => binding.run(executable, [x[0]!], y)).toThrow("1 tensors, expected 2");
        expect(() => binding.run(executable, [x[0]!, x[0]!], y)).toThrow("tensor 1 has 32 bytes, 48 are needed");
        expect(() => binding.run(executable, x, [shared(1)])).toThrow("tensor 0 has 4 bytes, 8 are needed");
        expect(() => binding.end(executable)).toThrow("no call has begun");
        expect(() => binding.bind(executable, RANKING_INPUTS, [w, executable as never])).toThrow(
          "a handle of another kind",
        );
        binding.free(v);
        expect(() => binding.bind(executable, RANKING_INPUTS, [w, v])).toThrow("the handle was freed");
        // The weight is the program's too, which still has it.
        binding.run(executable, x, y);
        expect(maxDifference(outputs.scores, expectedScores({ inputs, outputs }, 2))).toBeLessThan(1e-6);
        binding.free(w);
        binding.free(executable);
        expect(() => binding.run(executable, x, y)).toThrow("the handle was freed");
        expect(binding.liveObjects()).toEqual({ ...NOTHING, clients: 1 });
      },
    );

    test.skipIf(missing !== undefined)(
      `a call that is not ended is waited for when the program is freed${because}`,
      () => {
        const binding = native();
        const executable = binding.compile(
          client!,
          Buffer.from(rankingProgram(2)),
          Uint8Array.of(0x1a, 4, 0x20, 1, 0x28, 1),
        );
        const weights = [binding.upload(client!, W, "float32", [4]), binding.upload(client!, V, "float32", [6])];
        binding.bind(executable, RANKING_INPUTS, weights);
        const batches = [makeBatch(2, 1), makeBatch(2, 2)];
        for (const { inputs, outputs } of batches) {
          binding.begin(executable, [inputs.dense, inputs.pooled], [outputs.scores]);
        }
        expect(binding.liveObjects().buffers).toBe(2 + 2 * 3);
        binding.end(executable);
        expect(maxDifference(batches[0]!.outputs.scores, expectedScores(batches[0]!, 2))).toBeLessThan(1e-6);
        for (const handle of [executable, ...weights]) binding.free(handle);
        expect(maxDifference(batches[1]!.outputs.scores, expectedScores(batches[1]!, 2))).toBeLessThan(1e-6);
        expect(binding.liveObjects()).toEqual({ ...NOTHING, clients: 1 });
      },
    );

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
      expect(device.maxInFlight).toBe(1);
      // Ten weights of four bytes; XLA's CPU plugin tells nothing of its memory.
      expect(device.memory).toEqual({ kind: "host", weightBytes: 40 });
      expect([device.kind, device.platform, device.precision.name]).toEqual(["pjrt", "cpu", "float32"]);
      expect(device.stats).toMatchObject({ executions: BUCKETS.length, failures: 0, inFlight: 0 });
      await expect(device.compile(rankingProgram(8), 4)).rejects.toMatchObject({
        code: "model_mismatch",
        message: 'the program of bucket 4 has tensor<8x4xf32> as input "dense" (16 numbers), expected tensor<4x4xf32>',
      });
      expect(device.buckets).toEqual(BUCKETS);
      await device.compile(rankingProgram(4), 4);
      const added = makeBatch(4);
      await device.execute(4, added.inputs, added.outputs);
      expect(maxDifference(added.outputs.scores, expectedScores(added, 4))).toBeLessThan(1e-6);
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
    ])(`refuses %s, and keeps nothing of it${because}`, (_what, change, code, message) => {
      expect(() => PjrtBackend.open(pjrtSettings(plugin.pluginPath, change), () => {})).toThrow(
        expect.objectContaining({ code, message: expect.stringMatching(message) as unknown }),
      );
      expect(native().liveObjects()).toEqual({ ...NOTHING, clients: 1 });
    });

    test.skipIf(missing !== undefined)(
      `compiled programs are kept, by program, and damaged ones are made anew${because}`,
      async () => {
        const cacheDir = path.join(folder, `cache-${plugin.apiVersion}`);
        const check = async (change: Partial<PjrtSpec> = {}): Promise<void> => {
          const settings = pjrtSettings(plugin.pluginPath, { buckets: [2], cacheDir, ...change });
          const backend = PjrtBackend.open(settings, () => {});
          const batch = makeBatch(2);
          run(backend, 2, batch);
          expect(maxDifference(batch.outputs.scores, expectedScores(batch, 2))).toBeLessThan(1e-6);
          await backend.close();
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
        const backend = PjrtBackend.open(pjrtSettings(plugin.pluginPath, { buckets: [8] }), () => {});
        const roomy = allocateTensor(64);
        const pooled = allocateTensor(48);
        const scores = shared(8);
        for (let i = 0; i < 3; i++) backend.run(8, [roomy.subarray(0, 32), pooled], [scores]);
        expect([...backend.inputTransfers]).toEqual([6n, 0n]);
        backend.run(8, [roomy.subarray(4, 36), pooled], [scores]);
        expect([...backend.inputTransfers]).toEqual([7n, 1n]);
        await backend.close();
      },
    );

    test.skipIf(missing !== undefined)(
      `bfloat16 rounds weights, and says by how much scores differ${because}`,
      async () => {
        const backend = PjrtBackend.open(
          pjrtSettings(plugin.pluginPath, { buckets: [8], precision: "bfloat16", weights: [W, THIRDS] }),
          () => {},
        );
        const batch = makeBatch(8);
        run(backend, 8, batch);
        const difference = maxDifference(batch.outputs.scores, expectedScores(batch, 8, THIRDS));
        expect(difference).toBeLessThan(5e-3);
        // A third is no bfloat16 number: rounded it is 0.1 % more.
        expect(difference).toBeGreaterThan(1e-5);
        expect(backend.name).toBe(`PJRT cpu (API ${plugin.apiVersion}, bfloat16)`);
        expect(backend.memory.weightBytes).toBe(20);
        const { name, error } = backend.precision;
        expect([name, error?.rows]).toEqual(["bfloat16", 8]);
        expect(error!.maxAbs).toBeLessThan(5e-3);
        expect(error!.meanAbs).toBeGreaterThan(1e-6);
        await backend.close();
        await expect(
          openDevice({ ...spec, precision: "bfloat16", program: () => Uint8Array.of(1) }),
        ).rejects.toMatchObject({ code: "invalid_spec" });
      },
    );

    test.skipIf(missing !== undefined)(`10,000 calls, one or three at a time, leave nothing${because}`, async () => {
      const width = 4096;
      const settings = pjrtSettings(plugin.pluginPath, {
        buckets: [8],
        maxInFlight: 3,
        program: (bucket) => rankingProgram(bucket, width),
        inputs: [{ name: "dense", width: [width] }, spec.inputs[1]!],
        weights: [new Float32Array(width).fill(1 / width), V],
      });
      const backend = PjrtBackend.open(settings, () => {});
      const pipeline = backend.pipeline!;
      expect(pipeline.depth).toBe(3);
      const pooled = allocateTensor(8 * 6);
      pooled.set(makeBatch(8).inputs.pooled);
      // One that is copied, one that is read in place: of both nothing may stay.
      const copied = allocateTensor(8 * width + 4)
        .subarray(4)
        .fill(1);
      const inPlace = allocateTensor(8 * width).fill(1);
      const scores = [shared(8), shared(8), shared(8)];
      const calls = (count: number): void => {
        for (let i = 0; i < count; i += 4) {
          backend.run(8, [copied, pooled], [scores[0]!]);
          for (const [at, dense] of [inPlace, copied, inPlace].entries()) {
            pipeline.begin(8, [dense, pooled], [scores[at]!]);
          }
          for (let at = 0; at < 3; at++) pipeline.end(8);
        }
      };
      // Allocators have all they want.
      calls(2000);
      const idle = native().liveObjects();
      const resident: number[] = [];
      for (let thousand = 0; thousand < 10; thousand++) {
        calls(1000);
        expect(native().liveObjects()).toEqual(idle);
        resident.push(residentBytes());
      }
      // One input of each call that stayed would be 655 MB between the halves' medians.
      expect(growth(resident)).toBeLessThan(4_000_000);
      expect([...backend.inputTransfers]).toEqual([12_000n + 6000n, 6000n]);
      const inputs = { dense: shared(8 * 4), pooled };
      const plain = expectedScores({ inputs, outputs: { scores: shared(8) } }, 8);
      const wanted = plain.map((score) => 1 / (1 + Math.exp(-(Math.log(score / (1 - score)) + 1))));
      for (const out of scores) expect(maxDifference(out, wanted)).toBeLessThan(1e-6);
      await backend.close();
      expect(native().liveObjects()).toEqual({ ...NOTHING, clients: 1 });
    });

    test.skipIf(missing !== undefined)(`a device with calls in flight keeps their order${because}`, async () => {
      const device = await openDevice({ ...spec, maxInFlight: 3 });
      expect(device.maxInFlight).toBe(3);
      const batches = Array.from({ length: 30 }, (_, i) => ({ bucket: BUCKETS[i % 3]!, batch: makeBatch(8, i) }));
      const ended: number[] = [];
      await Promise.all(
        batches.map(async ({ bucket, batch }, i) => {
          await device.execute(bucket, batch.inputs, batch.outputs);
          ended.push(i);
        }),
      );
      expect(ended).toEqual(batches.map((_, i) => i));
      for (const { bucket, batch } of batches) {
        const scores = batch.outputs.scores.subarray(0, bucket);
        expect(maxDifference(scores, expectedScores(batch, bucket))).toBeLessThan(1e-6);
      }
      await device.close();
    });

    test.skipIf(missing !== undefined)(
      `devices of two threads share a client, and one outlives the other${because}`,
      async () => {
        const onThread = await openDevice({ ...spec, buckets: [1] });
        const here = PjrtBackend.open(pjrtSettings(plugin.pluginPath, { buckets: [1] }), () => {});
        expect(native().liveObjects().clients).toBe(1);
        await onThread.close();
        const batch = makeBatch(1);
        run(here, 1, batch);
        expect(maxDifference(batch.outputs.scores, expectedScores(batch, 1))).toBeLessThan(1e-6);
        await here.close();
      },
    );
  });
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
