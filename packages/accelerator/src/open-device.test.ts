import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDevice, type OpenProgress } from "@dlrm/accelerator";
import type { FixtureModel } from "../test/onnx-fixture.ts";
import {
  expectedScores,
  fixtureModel,
  makeBatch,
  maxDifference,
  ModelFolder,
  shared,
  specOf,
  V,
  W,
} from "../test/open-devices.ts";

let folder: ModelFolder;
let modelPath: string;
beforeAll(async () => {
  folder = await ModelFolder.create();
  modelPath = await folder.write("ranking.onnx", fixtureModel());
});
afterAll(() => folder.remove());

const simulated = { kind: "simulated", w: W, v: V, buckets: [1, 2] } as const;

describe("opening a device", () => {
  test("reports progress: the model, then each bucket", async () => {
    const reports: OpenProgress[] = [];
    const device = await openDevice({ ...simulated, onProgress: (progress) => reports.push(progress) });
    expect(reports).toEqual([
      { phase: "load", done: 1, total: 3 },
      { phase: "warm-up", bucket: 1, done: 2, total: 3 },
      { phase: "warm-up", bucket: 2, done: 3, total: 3 },
    ]);
    expect(device.warmUp).toMatchObject({ warmed: [1, 2], skipped: [] });
    await device.close();
  });

  test("fails if onProgress throws", async () => {
    const onProgress = (): never => {
      throw new Error("no screen");
    };
    await expect(openDevice({ ...simulated, onProgress })).rejects.toMatchObject({
      code: "open_failed",
      message: "onProgress threw: no screen",
    });
  });

  test("gives up after openTimeoutMs", async () => {
    // No thread is up within a hundredth of a millisecond.
    await expect(openDevice({ ...simulated, openTimeoutMs: 0.01 })).rejects.toMatchObject({
      code: "open_failed",
      message: "the device was not ready within openTimeoutMs, 0.01 ms, and was given up",
    });
  });

  test("is cancelled by a signal, before and while it opens", async () => {
    const cause = new Error("shutting down");
    const cancelled = { code: "cancelled", message: "opening the device was cancelled", cause };
    await expect(openDevice({ ...simulated, signal: AbortSignal.abort(cause) })).rejects.toMatchObject(cancelled);
    const controller = new AbortController();
    const opening = openDevice({ ...simulated, signal: controller.signal });
    controller.abort(cause);
    await expect(opening).rejects.toMatchObject(cancelled);
  });

  test("fails as the backend does, with its code and cause", async () => {
    await expect(
      openDevice({ kind: "onnxruntime", modelPath: "/nowhere/model.onnx", buckets: [1] }),
    ).rejects.toMatchObject({
      name: "AcceleratorError",
      code: "model_not_found",
      cause: { name: "Error", message: expect.stringContaining("ENOENT") as string },
    });
  });

  test("fails if the smallest bucket can't be run", async () => {
    const path = await folder.write("even.onnx", onlyEvenBatches());
    await expect(
      openDevice({ kind: "onnxruntime", modelPath: path, buckets: [1], numThreads: 1 }),
    ).rejects.toMatchObject({
      code: "open_failed",
      message: expect.stringContaining("warming up failed: ") as string,
    });
  });
});

/** y = -x for even batches; an odd one fails when it is run, which no shape in the model gives away. */
function onlyEvenBatches(): FixtureModel {
  return {
    inputs: [{ name: "x", shape: ["batch", 3] }],
    outputs: [{ name: "y", shape: ["batch", 3] }],
    nodes: [
      { op: "Reshape", inputs: ["x", "pairs"], outputs: ["paired"] },
      { op: "Neg", inputs: ["paired"], outputs: ["negative"] },
      { op: "Reshape", inputs: ["negative", "rows"], outputs: ["y"] },
    ],
    weights: [
      { name: "pairs", shape: [2], data: BigInt64Array.of(-1n, 6n) },
      { name: "rows", shape: [2], data: BigInt64Array.of(-1n, 3n) },
    ],
  };
}

test("a call that the runtime fails rejects with the runtime's reason; the calls around it and the device go on", async () => {
  const path = await folder.write("even.onnx", onlyEvenBatches());
  const device = await openDevice({
    kind: "onnxruntime",
    modelPath: path,
    buckets: [2, 3],
    numThreads: 1,
    warmUpBudgetMs: 0,
  });
  expect(device.warmUp).toMatchObject({ warmed: [2], skipped: [3] });
  const x = shared(12).map((_, i) => i + 1);
  const inputs = { x: shared(12) };
  inputs.x.set(x);
  const ys = [shared(12), shared(12), shared(12), shared(12)];
  const outcomes = await Promise.allSettled(
    [2, 3, 3, 2].map((bucket, i) => device.execute(bucket, inputs, { y: ys[i]! })),
  );
  const failed = {
    status: "rejected",
    reason: {
      code: "run_failed",
      message: expect.stringMatching(/^onnxruntime .* failed: .*Reshape/s) as string,
      cause: { name: "Error", message: expect.stringContaining("Reshape") as string },
    },
  };
  const done = { status: "fulfilled" };
  expect(outcomes).toMatchObject([done, failed, failed, done]);
  expect([...ys[3]!.subarray(0, 6)]).toEqual([-1, -2, -3, -4, -5, -6]);
  expect(device.stats).toMatchObject({ executions: 2, failures: 2, inFlight: 0 });
  await device.close();
});

test("several devices run at the same time, each its own model", async () => {
  const devices = await Promise.all([
    openDevice(specOf("onnxruntime", modelPath)),
    openDevice(specOf("onnxruntime", modelPath)),
    openDevice(specOf("simulated", modelPath)),
  ]);
  const batches = Array.from({ length: 30 }, (_, seed) => makeBatch(8, seed));
  await Promise.all(batches.map((batch, i) => devices[i % 3]!.execute(8, batch.inputs, batch.outputs)));
  for (const batch of batches) expect(maxDifference(batch.outputs.scores, expectedScores(batch, 8))).toBeLessThan(1e-6);
  await Promise.all(devices.map((device) => device.close()));
});

// `nx run accelerator:bench` opens and closes a thousand, and looks at the memory too.
test.skipIf(process.platform !== "linux").each(["onnxruntime", "simulated"] as const)(
  "opening and closing %s devices again and again leaves no thread (needs /proc, so Linux)",
  async (kind) => {
    const cycle = async (): Promise<void> => {
      const device = await openDevice(specOf(kind, modelPath));
      const batch = makeBatch(2);
      await device.execute(2, batch.inputs, batch.outputs);
      await device.close();
    };
    await cycle();
    const threads = (): number => readdirSync("/proc/self/task").length;
    const before = threads();
    for (let i = 0; i < 5; i++) await cycle();
    expect(threads()).toBe(before);
  },
);
