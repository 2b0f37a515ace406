import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDevice, type Device, type NamedTensors } from "@dlrm/accelerator";
import {
  BUCKETS,
  expectedScores,
  fixtureModel,
  makeBatch,
  maxDifference,
  ModelFolder,
  shared,
  specOf,
} from "../test/open-devices.ts";

let folder: ModelFolder;
let modelPath: string;
beforeAll(async () => {
  folder = await ModelFolder.create();
  modelPath = await folder.write("ranking.onnx", fixtureModel());
});
afterAll(() => folder.remove());

test("a device whose calls take next to no time leaves the caller's loop its turns", async () => {
  const device = await openDevice(specOf("simulated", modelPath));
  const batch = makeBatch(1);
  // The first is slept for, the others are looked for.
  for (let call = 0; call < 3; call++) await device.execute(1, batch.inputs, batch.outputs);
  const ended: string[] = [];
  const running = device.execute(1, batch.inputs, batch.outputs).then(() => ended.push("call"));
  const turn = new Promise((resolve) => setImmediate(resolve)).then(() => ended.push("turn"));
  await Promise.all([running, turn]);
  expect(ended.sort()).toEqual(["call", "turn"]);
  expect(device.stats.executions).toBe(4);
  await device.close();
});

// What every device promises, whatever runs behind it.
describe.each(["onnxruntime", "simulated", "reference"] as const)("a device of kind %s", (kind) => {
  let device: Device;
  beforeAll(async () => {
    device = await openDevice(specOf(kind, modelPath));
  });
  afterAll(() => device.close());

  test("says what it is", () => {
    expect(device.kind).toBe(kind);
    expect(device.name).not.toBe("");
    expect(device.buckets).toEqual(BUCKETS);
    expect(device.inputs.map(({ name }) => name)).toEqual(["dense", "pooled"]);
    expect(device.outputs).toEqual([{ name: "scores", width: [] }]);
  });

  test.each(BUCKETS)("computes the scores of bucket %i", async (bucket) => {
    const batch = makeBatch(bucket);
    await device.execute(bucket, batch.inputs, batch.outputs);
    expect(maxDifference(batch.outputs.scores, expectedScores(batch, bucket))).toBeLessThan(1e-6);
  });

  test("reads and writes only the bucket's rows of longer tensors", async () => {
    const batch = makeBatch(8);
    batch.inputs.dense.fill(Number.NaN, 2 * 4);
    await device.execute(2, batch.inputs, batch.outputs);
    expect(maxDifference(batch.outputs.scores.subarray(0, 2), expectedScores(batch, 2))).toBeLessThan(1e-6);
    expect([...batch.outputs.scores.subarray(2)]).toEqual(Array.from({ length: 6 }, () => -1));
  });

  test("takes tensors anywhere in one buffer, and sees what was written between calls", async () => {
    const all = shared(3 + 8 + 12 + 2 + 1);
    all.fill(-1);
    const inputs = { dense: all.subarray(3, 11), pooled: all.subarray(11, 23) };
    const outputs = { scores: all.subarray(23, 25) };
    for (const seed of [1, 2, 3]) {
      const batch = makeBatch(2, seed);
      inputs.dense.set(batch.inputs.dense);
      inputs.pooled.set(batch.inputs.pooled);
      await device.execute(2, inputs, outputs);
      expect(maxDifference(outputs.scores, expectedScores(batch, 2))).toBeLessThan(1e-6);
    }
    expect([all[0], all[1], all[2], all[25]]).toEqual([-1, -1, -1, -1]);
  });

  test("runs many calls made at once, in order, each on its own buffers", async () => {
    const batches = Array.from({ length: 40 }, (_, i) => ({ bucket: BUCKETS[i % 3]!, batch: makeBatch(8, i) }));
    const ended: number[] = [];
    await Promise.all(
      batches.map(({ bucket, batch }, i) =>
        device.execute(bucket, batch.inputs, batch.outputs).then(() => ended.push(i)),
      ),
    );
    expect(ended).toEqual(batches.map((_, i) => i));
    for (const { bucket, batch } of batches) {
      const scores = batch.outputs.scores.subarray(0, bucket);
      expect(maxDifference(scores, expectedScores(batch, bucket))).toBeLessThan(1e-6);
    }
  });

  test("counts calls, rows and padding", async () => {
    const counted = await openDevice(specOf(kind, modelPath));
    const batch = makeBatch(8);
    await counted.execute(8, batch.inputs, batch.outputs, { rows: 5 });
    await counted.execute(8, batch.inputs, batch.outputs, { rows: 8 });
    await counted.execute(1, batch.inputs, batch.outputs);
    const { busyMicros, byBucket, ...counts } = counted.stats;
    expect(counts).toEqual({ executions: 3, failures: 0, cancellations: 0, rows: 14, paddedRows: 3, inFlight: 0 });
    expect(byBucket.map(({ bucket, executions, rows }) => ({ bucket, executions, rows }))).toEqual([
      { bucket: 1, executions: 1, rows: 1 },
      { bucket: 8, executions: 2, rows: 13 },
    ]);
    expect(busyMicros).toBeGreaterThan(0);
    expect(byBucket.reduce((sum, bucket) => sum + bucket.busyMicros, 0)).toBeCloseTo(busyMicros, 6);
    await counted.close();
  });

  test("takes a further bucket while it runs", async () => {
    const growing = await openDevice(specOf(kind, modelPath));
    const batches = [makeBatch(8, 1), makeBatch(4, 2)] as const;
    const running = growing.execute(8, batches[0].inputs, batches[0].outputs);
    await growing.compile(undefined, 4);
    await running;
    expect(growing.buckets).toEqual([1, 2, 4, 8]);
    await growing.execute(4, batches[1].inputs, batches[1].outputs, { rows: 3 });
    await growing.execute(1, batches[0].inputs, batches[0].outputs);
    expect(maxDifference(batches[0].outputs.scores, expectedScores(batches[0], 8))).toBeLessThan(1e-6);
    expect(maxDifference(batches[1].outputs.scores, expectedScores(batches[1], 4))).toBeLessThan(1e-6);
    expect(growing.stats.byBucket.map(({ bucket, rows }) => [bucket, rows])).toEqual([
      [1, 1],
      [4, 3],
      [8, 8],
    ]);
    await expect(growing.compile(undefined, 4)).rejects.toMatchObject({
      code: "invalid_spec",
      message: "invalid compile() of a device: bucket must be none of 1, 2, 4, 8, got 4",
    });
    await expect(growing.compile("module {}", 1.5)).rejects.toMatchObject({
      message:
        'invalid compile() of a device: bucket must be a positive integer, got 1.5; program must be undefined, got "module {}"',
    });
    await growing.close();
    await expect(growing.compile(undefined, 16)).rejects.toMatchObject({ code: "closed" });
  });

  test("refuses a batch size that is no bucket", async () => {
    const batch = makeBatch(8);
    await expect(device.execute(3, batch.inputs, batch.outputs)).rejects.toMatchObject({
      code: "unknown_bucket",
      message: "no bucket 3: the device has 1, 2, 8",
    });
  });

  test.each([
    [
      "a missing input",
      { dense: shared(8) },
      'input "pooled" SHAPE must be a Float32Array over a SharedArrayBuffer, got nothing (given: dense)',
    ],
    [
      "a short input",
      { dense: shared(7), pooled: shared(12) },
      'input "dense" [2, 4] must be at least 8 numbers, got 7',
    ],
    [
      "an input in unshared memory",
      { dense: new Float32Array(8), pooled: shared(12) },
      'input "dense" [2, 4] must be a Float32Array over a SharedArrayBuffer, got a Float32Array over an ArrayBuffer',
    ],
    [
      "an input of another type",
      { dense: new Float64Array(new SharedArrayBuffer(64)), pooled: shared(12) },
      'input "dense" [2, 4] must be a Float32Array over a SharedArrayBuffer, got a Float64Array',
    ],
    [
      "an unknown input",
      { dense: shared(8), pooled: shared(12), sparse: shared(1) },
      'the device has no input "sparse"; it has dense, pooled',
    ],
  ])("refuses %s, and goes on", async (_case, inputs, message) => {
    const outputs = { scores: shared(2) };
    const shape = `[${[2, ...device.inputs[1]!.width].join(", ")}]`;
    await expect(device.execute(2, inputs as unknown as NamedTensors, outputs)).rejects.toMatchObject({
      name: "AcceleratorError",
      code: "shape_mismatch",
      message: message.replace("SHAPE", shape),
    });
    const batch = makeBatch(2);
    await device.execute(2, batch.inputs, batch.outputs);
    expect(maxDifference(batch.outputs.scores, expectedScores(batch, 2))).toBeLessThan(1e-6);
  });

  test("refuses a short output and a number of rows beyond the bucket", async () => {
    const batch = makeBatch(8);
    await expect(device.execute(8, batch.inputs, { scores: shared(7) })).rejects.toMatchObject({
      code: "shape_mismatch",
      message: 'output "scores" [8] must be at least 8 numbers, got 7',
    });
    await expect(device.execute(2, batch.inputs, batch.outputs, { rows: 3 })).rejects.toMatchObject({
      code: "shape_mismatch",
      message: "rows must be an integer from 0 to the bucket, 2, got 3",
    });
  });

  test("refuses a call whose signal is aborted already", async () => {
    const batch = makeBatch(1);
    const signal = AbortSignal.abort(new Error("no longer wanted"));
    await expect(device.execute(1, batch.inputs, batch.outputs, { signal })).rejects.toMatchObject({
      code: "cancelled",
      cause: { message: "no longer wanted" },
    });
    expect(device.stats.inFlight).toBe(0);
  });

  test("lets accepted calls end when it is closed, and refuses later ones", async () => {
    const closing = await openDevice(specOf(kind, modelPath));
    const batches = [makeBatch(8, 1), makeBatch(8, 2)];
    const calls = batches.map((batch) => closing.execute(8, batch.inputs, batch.outputs));
    const closed = closing.close();
    await expect(closing.execute(8, batches[0]!.inputs, batches[0]!.outputs)).rejects.toMatchObject({
      code: "closed",
      message: `${closing.name} is closed`,
    });
    await Promise.all([...calls, closed, closing.close()]);
    for (const batch of batches) {
      expect(maxDifference(batch.outputs.scores, expectedScores(batch, 8))).toBeLessThan(1e-6);
    }
  });
});
