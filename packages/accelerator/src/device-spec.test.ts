import { availableParallelism } from "node:os";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { openDevice, type DeviceSpec } from "@dlrm/accelerator";
import { checkOnnxRuntimeSpec, checkSimulatedSpec } from "./device-spec.ts";

const w = new Float32Array(2);
const v = new Float32Array(3);
const tensor = { name: "x", width: [3] };

describe("a device spec", () => {
  test("of onnxruntime is filled with defaults: no thread spins, all CPUs may be used", () => {
    expect(checkOnnxRuntimeSpec({ kind: "onnxruntime", modelPath: "m.onnx", buckets: [8, 1] })).toEqual({
      kind: "onnxruntime",
      modelPath: path.resolve("m.onnx"),
      buckets: [1, 8],
      inputs: undefined,
      outputs: undefined,
      numThreads: availableParallelism(),
      executionProviders: ["cpu"],
      precision: "float32",
      sessionConfig: { "session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0" },
      warmUpBudgetMs: 10_000,
      maxQueuedCalls: 64,
      callTimeoutMs: 60_000,
      openTimeoutMs: 300_000,
    });
  });

  test("of a simulated accelerator is filled with the reference's constants", () => {
    const settings = checkSimulatedSpec({ kind: "simulated", w, v, buckets: [1] });
    expect(settings).toMatchObject({ fixedMicros: 350, microsPerExample: 4 });
  });

  test("lets the caller's session configuration win", () => {
    const sessionConfig = { "session.intra_op.allow_spinning": "1", "session.x": "y" };
    expect(
      checkOnnxRuntimeSpec({ kind: "onnxruntime", modelPath: "m", buckets: [1], sessionConfig }).sessionConfig,
    ).toEqual({
      "session.intra_op.allow_spinning": "1",
      "session.inter_op.allow_spinning": "0",
      "session.x": "y",
    });
  });

  const buckets = "invalid simulated device: buckets must be 1 to 64 distinct positive integers, got";
  test.each<[string, unknown, string]>([
    ["no kind", {}, 'kind must be "onnxruntime", "pjrt", "simulated" or "reference", got undefined'],
    ["an unknown kind", { kind: "tpu" }, 'kind must be "onnxruntime", "pjrt", "simulated" or "reference", got "tpu"'],
    ["no buckets", { kind: "simulated", w, v }, `${buckets} undefined`],
    ["empty buckets", { kind: "simulated", w, v, buckets: [] }, `${buckets} []`],
    ["a bucket of 0", { kind: "simulated", w, v, buckets: [0, 1] }, `${buckets} [0,1]`],
    ["a bucket twice", { kind: "simulated", w, v, buckets: [1, 1] }, `${buckets} [1,1]`],
    ["half a bucket", { kind: "simulated", w, v, buckets: [1.5] }, `${buckets} [1.5]`],
    [
      "everything wrong at once",
      {
        kind: "simulated",
        w: [1],
        v: new Float32Array(),
        buckets: [1],
        fixedMicros: -1,
        microsPerExample: Number.NaN,
        maxQueuedCalls: 0,
      },
      "invalid simulated device: maxQueuedCalls must be an integer from 1 to 65536, got 0; w must be a Float32Array that is not empty, got [1]; " +
        "v must be a Float32Array that is not empty, got Float32Array of 0 bytes; fixedMicros must be a number ≥ 0, got -1; " +
        "microsPerExample must be a number ≥ 0, got NaN",
    ],
    [
      "wrong waits",
      {
        kind: "simulated",
        w,
        v,
        buckets: [1],
        warmUpBudgetMs: -1,
        callTimeoutMs: 0,
        openTimeoutMs: "1s",
        reopen: { delayMs: -1, maxAttempts: 0 },
      },
      "invalid simulated device: warmUpBudgetMs must be a number ≥ 0, got -1; callTimeoutMs must be a number > 0, got 0; " +
        'openTimeoutMs must be a number > 0, got "1s"; reopen.delayMs must be a number ≥ 0, got -1; ' +
        "reopen.maxAttempts must be a positive integer or Infinity, got 0",
    ],
    [
      "an onnxruntime spec without a model",
      {
        kind: "onnxruntime",
        buckets: [1],
        numThreads: 0,
        executionProviders: [],
        inputs: [{ name: "x" }],
        outputs: [tensor, tensor],
      },
      "invalid onnxruntime device: modelPath must be the path of an ONNX file, got undefined; " +
        'inputs must be a list of { name, width: positive integers } with distinct names, got [{"name":"x"}]; ' +
        'outputs must be a list of { name, width: positive integers } with distinct names, got [{"name":"x","width":[3]},{"name":"x","width":[3]}]; ' +
        "numThreads must be a positive integer, got 0; executionProviders must be a list of names, got []",
    ],
    [
      "a reference without a function",
      { kind: "reference", buckets: [1], inputs: [tensor], outputs: [], run: 3 },
      "invalid reference device: outputs must be a list of { name, width: positive integers } with distinct names, got []; run must be a function, got 3",
    ],
  ])("is refused: %s", async (_case, spec, message) => {
    await expect(openDevice(spec as DeviceSpec)).rejects.toMatchObject({
      name: "AcceleratorError",
      code: "invalid_spec",
      message,
    });
  });

  test("is refused: a precision that the processor or the provider does not have", () => {
    const spec = { kind: "onnxruntime", modelPath: "m", buckets: [1] } as const;
    expect(() => checkOnnxRuntimeSpec({ ...spec, executionProviders: ["cuda"], precision: "int8" })).toThrow(
      `invalid onnxruntime device: precision must be float32 with cuda on ${process.arch}, got "int8"`,
    );
    const check = (): unknown => checkOnnxRuntimeSpec({ ...spec, precision: "bfloat16" }).sessionConfig;
    if (process.arch === "arm64") {
      expect(check()).toMatchObject({ "mlas.enable_gemm_fastmath_arm64_bfloat16": "1" });
    } else {
      expect(check).toThrow(
        `invalid onnxruntime device: precision must be float32 or int8 with cpu on ${process.arch}, got "bfloat16"`,
      );
    }
  });
});
