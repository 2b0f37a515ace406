import { availableParallelism } from "node:os";
import path from "node:path";
import type { ReopenOptions } from "./reopening-device.ts";
import type { PjrtSettings, PjrtSpec } from "./pjrt-spec.ts";
import {
  Problems,
  checkBuckets,
  checkCommon,
  checkMaxQueuedCalls,
  checkTensorSpecs,
  isDuration,
  isPositiveInteger,
} from "./spec-checks.ts";
import type { NamedTensors, OpenProgress, PrecisionReport, TensorSpec } from "./device.ts";

export interface CommonSpec {
  /** Batch sizes the device must run: positive integers, in any order. The model's batch dimension must allow each. */
  readonly buckets: readonly number[];
  /**
   * Time warm-up may take, in milliseconds. Default 10,000. Each bucket runs once, the smallest first; a bucket whose run
   * would go over, judged by the time of the one before, is left out together with all larger ones. The smallest
   * always runs, even with 0; `Infinity` runs all.
   */
  readonly warmUpBudgetMs?: number;
  /** Calls that may wait or run at one time; one more is rejected with `queue_full`. Default 64. */
  readonly maxQueuedCalls?: number;
  /**
   * The device is given up as wedged if calls wait and none ends for this long, in milliseconds. Default 60,000;
   * `Infinity` waits for ever. While it compiles an added bucket, whether calls wait or not, `openTimeoutMs` holds instead where
   * that is longer.
   */
  readonly callTimeoutMs?: number;
  /** `openDevice` gives up after this long, in milliseconds. Default 300,000; `Infinity` waits for ever. */
  readonly openTimeoutMs?: number;
  /** Called on the caller's thread after each step of opening. */
  readonly onProgress?: (progress: OpenProgress) => void;
  /** Opens the device again by itself whenever it is lost or wedged. Default: it stays lost. */
  readonly reopen?: ReopenOptions;
  /** Aborts opening. Has no effect once the device is open. */
  readonly signal?: AbortSignal;
}

/** An ONNX model, run by `onnxruntime-node` (a peer dependency that you install) in a thread of its own. */
export interface OnnxRuntimeSpec extends CommonSpec {
  readonly kind: "onnxruntime";
  readonly modelPath: string;
  /** Float32 inputs and their dimensions after the batch. Checked against the model; by default what the model says. */
  readonly inputs?: readonly TensorSpec[];
  /** Likewise. A model may have outputs that are not named here; they are not computed into anything. */
  readonly outputs?: readonly TensorSpec[];
  /** Threads of one operator, the device's own thread included. Default: the CPUs this process may use. They never spin. */
  readonly numThreads?: number;
  /**
   * Execution providers by onnxruntime's names (`cpu`, `cuda`, `coreml`, `dml`, …), the preferred first. Default `["cpu"]`.
   * A provider that can't be had is an error, never a silent fallback to the next.
   */
  readonly executionProviders?: readonly string[];
  /**
   * `bfloat16` lets matrix products round their inputs to bfloat16: onnxruntime has it on arm64 CPUs with the bf16
   * extension, and elsewhere it is an error. `int8` quantizes the weight matrices of the model, which must be inside its
   * file, when it is opened: faster, and less exact by what `device.precision` then says. Both are for the CPU. Default
   * `float32`.
   */
  readonly precision?: PrecisionReport["name"];
  /** Session configuration entries by onnxruntime's keys (`session.…`), over ours. */
  readonly sessionConfig?: Readonly<Record<string, string>>;
}

/**
 * A simulated accelerator: `scores = sigmoid(w · dense + v · pooled)` are computed for real in its thread, which then
 * sleeps for what is left of `fixedMicros + microsPerExample × bucket`. Inputs `dense` [w.length] and `pooled` [v.length],
 * output `scores` [].
 */
export interface SimulatedSpec extends CommonSpec {
  readonly kind: "simulated";
  readonly w: Float32Array;
  readonly v: Float32Array;
  /** Microseconds each call takes at least. Default 350. */
  readonly fixedMicros?: number;
  /** Microseconds an example, padding included, adds. Default 4. */
  readonly microsPerExample?: number;
}

/** Your function in place of a device, on the caller's own thread: for tests. */
export interface ReferenceSpec extends Pick<CommonSpec, "buckets" | "maxQueuedCalls"> {
  readonly kind: "reference";
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Gets the first `bucket` rows of each tensor and fills the outputs. What it throws rejects the call with `run_failed`. */
  readonly run: (bucket: number, inputs: NamedTensors, outputs: NamedTensors) => void | Promise<void>;
}

export type DeviceSpec = OnnxRuntimeSpec | PjrtSpec | SimulatedSpec | ReferenceSpec;

/** What a device's thread is started with: every default filled in, and fit for structured cloning. */
export type ThreadSettings = OnnxRuntimeSettings | PjrtSettings | SimulatedSettings;

export interface CommonSettings {
  readonly buckets: readonly number[];
  readonly warmUpBudgetMs: number;
  readonly maxQueuedCalls: number;
}

export interface OnnxRuntimeSettings extends CommonSettings {
  readonly kind: "onnxruntime";
  readonly modelPath: string;
  readonly inputs: readonly TensorSpec[] | undefined;
  readonly outputs: readonly TensorSpec[] | undefined;
  readonly numThreads: number;
  readonly executionProviders: readonly string[];
  readonly precision: PrecisionReport["name"];
  readonly sessionConfig: Readonly<Record<string, string>>;
}

export interface SimulatedSettings extends CommonSettings {
  readonly kind: "simulated";
  readonly w: Float32Array;
  readonly v: Float32Array;
  readonly fixedMicros: number;
  readonly microsPerExample: number;
}

/** The waits of the caller's side. */
export interface CallerSettings {
  readonly callTimeoutMs: number;
  readonly openTimeoutMs: number;
}

/** Session configuration that turns bfloat16 products on. */
export const BFLOAT16_ENTRY = "mlas.enable_gemm_fastmath_arm64_bfloat16";

/** Validates once; nothing after it sees a default or a wrong value. Throws `invalid_spec` with all problems. */
export function checkOnnxRuntimeSpec(spec: OnnxRuntimeSpec): OnnxRuntimeSettings & CallerSettings {
  const problems = new Problems();
  const common = checkCommon(spec, problems);
  const { numThreads = availableParallelism(), executionProviders = ["cpu"], precision = "float32" } = spec;
  problems.expect(
    typeof spec.modelPath === "string" && spec.modelPath !== "",
    "modelPath",
    "the path of an ONNX file",
    spec.modelPath,
  );
  if (spec.inputs !== undefined) checkTensorSpecs("inputs", spec.inputs, problems);
  if (spec.outputs !== undefined) checkTensorSpecs("outputs", spec.outputs, problems);
  problems.expect(isPositiveInteger(numThreads), "numThreads", "a positive integer", numThreads);
  problems.expect(
    Array.isArray(executionProviders) &&
      executionProviders.length > 0 &&
      executionProviders.every((name) => typeof name === "string"),
    "executionProviders",
    "a list of names",
    executionProviders,
  );
  const precisions = ["float32"];
  if (executionProviders[0] === "cpu") precisions.push("int8");
  if (executionProviders[0] === "cpu" && process.arch === "arm64") precisions.push("bfloat16");
  const expected = `${precisions.join(" or ")} with ${executionProviders[0]} on ${process.arch}`;
  problems.expect(precisions.includes(precision), "precision", expected, precision);
  problems.throwIfAny("onnxruntime");
  return {
    ...common,
    kind: "onnxruntime",
    // The thread has its own idea of the working directory only as long as the caller doesn't change it.
    modelPath: path.resolve(spec.modelPath),
    inputs: spec.inputs,
    outputs: spec.outputs,
    numThreads,
    executionProviders,
    precision,
    sessionConfig: {
      // A thread that spins for work takes the core from whoever prepares the next batch.
      "session.intra_op.allow_spinning": "0",
      "session.inter_op.allow_spinning": "0",
      ...(precision === "bfloat16" ? { [BFLOAT16_ENTRY]: "1" } : {}),
      ...spec.sessionConfig,
    },
  };
}

/** See {@link checkOnnxRuntimeSpec}. */
export function checkSimulatedSpec(spec: SimulatedSpec): SimulatedSettings & CallerSettings {
  const problems = new Problems();
  const common = checkCommon(spec, problems);
  const { fixedMicros = 350, microsPerExample = 4 } = spec;
  const isWeights = (value: unknown): boolean => value instanceof Float32Array && value.length > 0;
  problems.expect(isWeights(spec.w), "w", "a Float32Array that is not empty", spec.w);
  problems.expect(isWeights(spec.v), "v", "a Float32Array that is not empty", spec.v);
  problems.expect(isDuration(fixedMicros) && fixedMicros < 2 ** 52, "fixedMicros", "a number ≥ 0", fixedMicros);
  problems.expect(
    isDuration(microsPerExample) && microsPerExample < 2 ** 52,
    "microsPerExample",
    "a number ≥ 0",
    microsPerExample,
  );
  problems.throwIfAny("simulated");
  return { ...common, kind: "simulated", w: spec.w, v: spec.v, fixedMicros, microsPerExample };
}

/** See {@link checkOnnxRuntimeSpec}. */
export function checkReferenceSpec(spec: ReferenceSpec): Required<ReferenceSpec> {
  const problems = new Problems();
  const { maxQueuedCalls = 64 } = spec;
  const buckets = checkBuckets(spec.buckets, problems);
  checkMaxQueuedCalls(maxQueuedCalls, problems);
  checkTensorSpecs("inputs", spec.inputs, problems);
  checkTensorSpecs("outputs", spec.outputs, problems);
  problems.expect(typeof spec.run === "function", "run", "a function", spec.run);
  problems.throwIfAny("reference");
  return { kind: "reference", buckets, inputs: spec.inputs, outputs: spec.outputs, run: spec.run, maxQueuedCalls };
}
