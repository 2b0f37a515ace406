import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkOnnxRuntimeSpec, type OnnxRuntimeSpec } from "./device-spec.ts";
import { OnnxRuntimeBackend } from "./onnxruntime-backend.ts";
import { INT64, type FixtureModel, type FixtureValue } from "../test/onnx-fixture.ts";
import { expectedScores, fixtureModel, makeBatch, maxDifference, ModelFolder, shared } from "../test/open-devices.ts";

let folder: ModelFolder;
beforeAll(async () => {
  folder = await ModelFolder.create();
});
afterAll(() => folder.remove());

function open(modelPath: string, options: Partial<OnnxRuntimeSpec> = {}): Promise<OnnxRuntimeBackend> {
  return OnnxRuntimeBackend.open(
    checkOnnxRuntimeSpec({ kind: "onnxruntime", modelPath, buckets: [1, 4], numThreads: 1, ...options }),
  );
}

/** y = -x, with the shapes that are given. */
function negation(x: FixtureValue, y: FixtureValue): FixtureModel {
  return { inputs: [x], outputs: [y], nodes: [{ op: "Neg", inputs: [x.name], outputs: [y.name] }] };
}

const X: FixtureValue = { name: "x", shape: ["batch", 3] };
const Y: FixtureValue = { name: "y", shape: ["batch", 3] };

describe("opening an ONNX model", () => {
  test("takes names and widths from the model if the spec gives none", async () => {
    const backend = await open(await folder.write("ranking.onnx", fixtureModel()));
    expect(backend.inputs).toEqual([
      { name: "dense", width: [4] },
      { name: "pooled", width: [2, 3] },
    ]);
    expect(backend.outputs).toEqual([{ name: "scores", width: [] }]);
    expect(backend.platform).toBe("cpu");
    expect(backend.name).toMatch(/^onnxruntime \d+\.\d+\.\d+ \(cpu, 1 thread\)$/);
    await backend.close();
  });

  test("takes the widths of the spec where the model leaves them open", async () => {
    const path = await folder.write(
      "open.onnx",
      negation({ ...X, shape: ["batch", "n"] }, { ...Y, shape: ["batch", "n"] }),
    );
    await expect(open(path)).rejects.toMatchObject({
      code: "model_mismatch",
      message: 'input "x" of the model is [batch, n]: give its width in the spec, because the model leaves it open',
    });
    const backend = await open(path, { inputs: [{ name: "x", width: [2] }], outputs: [{ name: "y", width: [2] }] });
    const x = shared(8).fill(1.5);
    const y = shared(8);
    await backend.run(4, [backend.wrap(backend.inputs[0]!, 4, x)], [backend.wrap(backend.outputs[0]!, 4, y)]);
    expect([...y]).toEqual(Array.from({ length: 8 }, () => -1.5));
    await backend.close();
  });

  test("leaves outputs alone that the spec does not name", async () => {
    const model = negation(X, Y);
    const path = await folder.write("two.onnx", {
      ...model,
      outputs: [Y, { name: "z", shape: ["batch", 3] }],
      nodes: [...model.nodes, { op: "Abs", inputs: ["x"], outputs: ["z"] }],
    });
    const backend = await open(path, { outputs: [{ name: "z", width: [3] }] });
    const x = shared(3).fill(-2);
    const z = shared(3);
    await backend.run(1, [backend.wrap(backend.inputs[0]!, 1, x)], [backend.wrap(backend.outputs[0]!, 1, z)]);
    expect([...z]).toEqual([2, 2, 2]);
    await backend.close();
  });

  test("says that there is no file", async () => {
    await expect(open("/nowhere/model.onnx")).rejects.toMatchObject({
      code: "model_not_found",
      message: expect.stringMatching(/^can't read the model \/nowhere\/model\.onnx: ENOENT/) as string,
      cause: { code: "ENOENT" },
    });
  });

  test("says that the file is no model", async () => {
    const path = await folder.write("text.onnx", "this is no protobuf");
    await expect(open(path)).rejects.toMatchObject({
      code: "model_invalid",
      message: expect.stringContaining(`onnxruntime can't load ${path}: `) as string,
      cause: expect.any(Error) as Error,
    });
  });

  test("says that an execution provider can't be had, instead of falling back", async () => {
    const path = await folder.write("provider.onnx", negation(X, Y));
    const elsewhere = process.platform === "darwin" ? "dml" : "coreml";
    await expect(open(path, { executionProviders: [elsewhere, "cpu"] })).rejects.toMatchObject({
      code: "provider_unavailable",
      message: expect.stringMatching(
        new RegExp(
          `^onnxruntime-node has no execution provider ${elsewhere} on ${process.platform}-${process.arch}; it has .*cpu`,
        ),
      ) as string,
    });
  });

  test.each<[string, FixtureModel, Partial<OnnxRuntimeSpec>, string]>([
    [
      "an input that the model does not have",
      negation(X, Y),
      {
        inputs: [
          { name: "x", width: [3] },
          { name: "pooled", width: [3] },
        ],
      },
      'the model has no input "pooled"; it has x',
    ],
    [
      "an input that the spec does not name",
      negation(X, Y),
      { inputs: [{ name: "w", width: [3] }] },
      'the model needs input "x", which the spec does not name',
    ],
    [
      "an output that the model does not have",
      negation(X, Y),
      { outputs: [{ name: "scores", width: [] }] },
      'the model has no output "scores"; it has y',
    ],
    [
      "another width",
      negation(X, Y),
      { inputs: [{ name: "x", width: [4] }] },
      'input "x" of the model is [batch, 3]; the spec says [batch, 4]',
    ],
    [
      "another rank",
      negation(X, Y),
      { outputs: [{ name: "y", width: [] }] },
      'output "y" of the model is [batch, 3]; the spec says [batch]',
    ],
    [
      "a fixed batch",
      negation({ ...X, shape: [4, 3] }, { ...Y, shape: [4, 3] }),
      {},
      'input "x" of the model is [4, 3]: its fixed batch refuses bucket 1',
    ],
    [
      "no batch",
      negation({ ...X, shape: [] }, { ...Y, shape: [] }),
      {},
      'input "x" of the model has no batch dimension',
    ],
    [
      "another element type",
      negation({ ...X, elementType: INT64 }, { ...Y, elementType: INT64 }),
      {},
      'input "x" of the model is int64; the device runs float32 tensors',
    ],
  ])("refuses %s", async (name, model, options, message) => {
    const path = await folder.write(`${name.replaceAll(" ", "-")}.onnx`, model);
    await expect(open(path, options)).rejects.toMatchObject({ code: "model_mismatch", message });
  });

  test("takes a fixed batch that is the only bucket", async () => {
    const path = await folder.write("fixed.onnx", negation({ ...X, shape: [4, 3] }, { ...Y, shape: [4, 3] }));
    const backend = await open(path, { buckets: [4] });
    expect(backend.inputs).toEqual([{ name: "x", width: [3] }]);
    await backend.close();
  });
});

test("a run for which there is no memory says so, and the session goes on", async () => {
  // The first of 2^46 copies of x: more bytes than there are addresses.
  const path = await folder.write("copies.onnx", {
    inputs: [
      { name: "x", shape: ["batch", 1] },
      { name: "copies", shape: ["batch", 1] },
    ],
    outputs: [{ name: "y", shape: ["batch", 1] }],
    nodes: [
      { op: "ReduceMax", inputs: ["copies"], outputs: ["most"], attributes: { keepdims: 0 } },
      { op: "Cast", inputs: ["most"], outputs: ["count"], attributes: { to: INT64 } },
      { op: "Reshape", inputs: ["count", "list"], outputs: ["counts"] },
      { op: "Concat", inputs: ["list", "counts"], outputs: ["shape"], attributes: { axis: 0 } },
      { op: "Expand", inputs: ["x", "shape"], outputs: ["many"] },
      { op: "Gather", inputs: ["many", "first"], outputs: ["y"], attributes: { axis: 1 } },
    ],
    weights: [
      { name: "list", shape: [1], data: BigInt64Array.of(1n) },
      { name: "first", shape: [1], data: BigInt64Array.of(0n) },
    ],
  });
  const backend = await open(path, { buckets: [1] });
  const [x, copies, y] = [shared(1).fill(7), shared(1), shared(1)];
  const run = (count: number): Promise<void> => {
    copies[0] = count;
    const inputs = [x, copies].map((tensor, i) => backend.wrap(backend.inputs[i]!, 1, tensor));
    return backend.run(1, inputs, [backend.wrap(backend.outputs[0]!, 1, y)]);
  };
  await expect(run(2 ** 46)).rejects.toMatchObject({
    code: "out_of_memory",
    message: expect.stringMatching(/^onnxruntime \S+ \(cpu, 1 thread\) has no memory left: /) as unknown,
  });
  await run(2);
  expect(y[0]).toBe(7);
  await backend.close();
});

describe("an ONNX model in int8", () => {
  test("scores nearly as in float32, and says by how much it differs", async () => {
    const path = await folder.write("int8.onnx", fixtureModel());
    const backend = await open(path, { precision: "int8", buckets: [1, 4, 128] });
    expect(backend.name).toMatch(/\(cpu, 1 thread, int8\)$/);
    expect(backend.precision).toMatchObject({ name: "int8", quantizedWeights: 1, error: { rows: 4 } });
    const { maxAbs, meanAbs } = backend.precision.error!;
    expect(maxAbs).toBeGreaterThan(0);
    expect(maxAbs).toBeLessThan(0.02);
    expect(meanAbs).toBeGreaterThan(0);
    expect(meanAbs).toBeLessThanOrEqual(maxAbs);
    const batch = makeBatch(4);
    const [dense, pooled] = backend.inputs;
    const inputs = [backend.wrap(dense!, 4, batch.inputs.dense), backend.wrap(pooled!, 4, batch.inputs.pooled)];
    await backend.run(4, inputs, [backend.wrap(backend.outputs[0]!, 4, batch.outputs.scores)]);
    expect(maxDifference(batch.outputs.scores, expectedScores(batch, 4))).toBeLessThan(0.02);
    await backend.close();
  });

  test("is float32 still where there is no matrix to quantize", async () => {
    const backend = await open(await folder.write("neg.onnx", negation(X, Y)), { precision: "int8" });
    expect(backend.precision).toEqual({ name: "int8", quantizedWeights: 0, error: { maxAbs: 0, meanAbs: 0, rows: 4 } });
    await backend.close();
  });

  test("must be an ONNX file", async () => {
    const path = await folder.write("broken.onnx", "\u007f\u007f");
    await expect(open(path, { precision: "int8" })).rejects.toMatchObject({
      code: "model_invalid",
      message: expect.stringContaining(`${path} is no ONNX file: `) as string,
    });
  });
});
