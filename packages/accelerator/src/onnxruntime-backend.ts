import { createRequire } from "node:module";
import { access, constants, readFile } from "node:fs/promises";
import type * as OnnxRuntime from "onnxruntime-node";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { AcceleratorError } from "./errors.ts";
import type { Backend } from "./backend.ts";
import type { DeviceMemory, PrecisionReport, SharedFloat32Array, TensorSpec } from "./device.ts";
import { BFLOAT16_ENTRY, type OnnxRuntimeSettings } from "./device-spec.ts";
import { precisionError, precisionSample } from "./precision-sample.ts";
import { quantizeOnnx, type QuantizedModel } from "./quantize-onnx.ts";

/** Loads the peer dependency, or says what to install. */
function loadOnnxRuntime(): typeof OnnxRuntime {
  const require = createRequire(import.meta.url);
  try {
    return require("onnxruntime-node") as typeof OnnxRuntime;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "MODULE_NOT_FOUND" && message.includes("'onnxruntime-node'")) {
      throw new AcceleratorError(
        "not_installed",
        'the "onnxruntime" device needs the package onnxruntime-node, which is not installed: run `npm install onnxruntime-node`',
        { cause: error },
      );
    }
    throw new AcceleratorError(
      "not_installed",
      `onnxruntime-node is installed but can't be loaded on ${process.platform}-${process.arch}: ${message}`,
      { cause: error },
    );
  }
}

async function checkReadable(modelPath: string): Promise<void> {
  try {
    await access(modelPath, constants.R_OK);
  } catch (error) {
    throw AcceleratorError.from(error, "model_not_found", `can't read the model ${modelPath}`);
  }
}

/** Because onnxruntime leaves out a provider that its build lacks, as long as it has another of the list. */
function checkProviders(ort: typeof OnnxRuntime, executionProviders: readonly string[]): void {
  const built = ort.listSupportedBackends().map(({ name }) => name);
  const missing = executionProviders.filter((name) => !built.includes(name));
  if (missing.length > 0) {
    throw new AcceleratorError(
      "provider_unavailable",
      `onnxruntime-node has no execution provider ${missing.join(", ")} on ${process.platform}-${process.arch}; it has ${built.join(", ")}`,
    );
  }
}

/** A session of the model at the path of the settings, or of `bytes` that stand for it. */
async function createSession(
  ort: typeof OnnxRuntime,
  settings: OnnxRuntimeSettings,
  bytes?: Uint8Array,
): Promise<InferenceSession> {
  const { modelPath, numThreads, executionProviders, sessionConfig } = settings;
  try {
    const options: InferenceSession.SessionOptions = {
      executionProviders,
      intraOpNumThreads: numThreads,
      interOpNumThreads: 1,
      executionMode: "sequential",
      graphOptimizationLevel: "all",
      extra: { ...sessionConfig },
      // What it would log as an error, it also throws, and that is what the caller gets.
      logSeverityLevel: 4,
    };
    return await (bytes
      ? ort.InferenceSession.create(bytes, options)
      : ort.InferenceSession.create(modelPath, options));
  } catch (error) {
    if (isOutOfMemory(error)) throw AcceleratorError.from(error, "out_of_memory", `no memory for ${modelPath}`);
    const accelerated = executionProviders.filter((name) => name !== "cpu");
    if (accelerated.length > 0 && !isAboutTheModel(error)) {
      throw AcceleratorError.from(
        error,
        "provider_unavailable",
        `execution provider ${accelerated.join(", ")} can't be had here`,
      );
    }
    throw AcceleratorError.from(error, "model_invalid", `onnxruntime can't load ${modelPath}`);
  }
}

/** By what it says: onnxruntime has no code for it, and each allocator its own words. */
function isOutOfMemory(error: unknown): boolean {
  return (
    error instanceof Error &&
    /failed to allocate memory|out of memory|bad[ _]alloc|CUBLAS_STATUS_ALLOC_FAILED/i.test(error.message)
  );
}

function isAboutTheModel(error: unknown): boolean {
  return error instanceof Error && /protobuf parsing failed|INVALID_GRAPH|INVALID_PROTOBUF/i.test(error.message);
}

async function quantizeFile(modelPath: string): Promise<QuantizedModel> {
  const bytes = await readFile(modelPath);
  try {
    return quantizeOnnx(bytes);
  } catch (error) {
    throw AcceleratorError.from(error, "model_invalid", `${modelPath} is no ONNX file`);
  }
}

/** The tensors of one side of the model that calls will bind, checked against what the spec says of them. */
function resolveTensors(
  side: "input" | "output",
  metadata: readonly InferenceSession.ValueMetadata[],
  wanted: readonly TensorSpec[] | undefined,
  buckets: readonly number[],
): TensorSpec[] {
  const mismatch = (message: string): AcceleratorError => new AcceleratorError("model_mismatch", message);
  const names = metadata.map(({ name }) => name).join(", ");
  if (side === "input" && wanted !== undefined) {
    const missing = metadata.find(({ name }) => !wanted.some((spec) => spec.name === name));
    if (missing) throw mismatch(`the model needs input "${missing.name}", which the spec does not name`);
  }
  const pick = wanted ?? metadata.map(({ name }) => ({ name, width: undefined }));
  return pick.map(({ name, width }) => {
    const value = metadata.find((candidate) => candidate.name === name);
    if (value === undefined) throw mismatch(`the model has no ${side} "${name}"; it has ${names}`);
    if (!value.isTensor || value.type !== "float32") {
      const type = value.isTensor ? value.type : "no tensor";
      throw mismatch(`${side} "${name}" of the model is ${type}; the device runs float32 tensors`);
    }
    const [batch, ...rest] = value.shape;
    const shown = `[${value.shape.join(", ")}]`;
    if (batch === undefined) throw mismatch(`${side} "${name}" of the model has no batch dimension`);
    const refused = typeof batch === "number" ? buckets.find((bucket) => bucket !== batch) : undefined;
    if (refused !== undefined) {
      throw mismatch(`${side} "${name}" of the model is ${shown}: its fixed batch refuses bucket ${refused}`);
    }
    if (width === undefined) {
      if (rest.every((dimension) => typeof dimension === "number")) return { name, width: rest };
      throw mismatch(
        `${side} "${name}" of the model is ${shown}: give its width in the spec, because the model leaves it open`,
      );
    }
    const agrees =
      rest.length === width.length &&
      rest.every((dimension, i) => typeof dimension === "string" || dimension === width[i]);
    if (!agrees)
      throw mismatch(
        `${side} "${name}" of the model is ${shown}; the spec says [batch${width.map((n) => `, ${n}`).join("")}]`,
      );
    return { name, width };
  });
}

/**
 * An ONNX model in an onnxruntime session. Tensors lie over the caller's shared memory, inputs and (as preallocated
 * results) outputs alike: nothing is copied on a CPU.
 */
export class OnnxRuntimeBackend implements Backend<Tensor> {
  readonly name: string;
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  precision: PrecisionReport;
  readonly memory: DeviceMemory;
  readonly #ort: typeof OnnxRuntime;
  readonly #session: InferenceSession;

  static async open(settings: OnnxRuntimeSettings): Promise<OnnxRuntimeBackend> {
    const ort = loadOnnxRuntime();
    await checkReadable(settings.modelPath);
    checkProviders(ort, settings.executionProviders);
    const quantized = settings.precision === "int8" ? await quantizeFile(settings.modelPath) : undefined;
    const session = await createSession(ort, settings, quantized?.bytes);
    try {
      const backend = new OnnxRuntimeBackend(ort, session, settings, quantized?.quantizedWeights ?? 0);
      if (settings.precision !== "float32") await backend.#compareToFloat32(settings);
      return backend;
    } catch (error) {
      await session.release();
      throw error;
    }
  }

  private constructor(
    ort: typeof OnnxRuntime,
    session: InferenceSession,
    settings: OnnxRuntimeSettings,
    quantizedWeights: number,
  ) {
    this.#ort = ort;
    this.#session = session;
    this.platform = settings.executionProviders[0]!;
    this.memory = { kind: this.platform === "cpu" ? "host" : "device" };
    const threads = `${settings.numThreads} thread${settings.numThreads === 1 ? "" : "s"}`;
    const precision = settings.precision === "float32" ? "" : `, ${settings.precision}`;
    this.name = `onnxruntime ${ort.env.versions.node ?? ""} (${this.platform}, ${threads}${precision})`;
    this.precision = { name: settings.precision, quantizedWeights };
    this.inputs = resolveTensors("input", session.inputMetadata, settings.inputs, settings.buckets);
    this.outputs = resolveTensors("output", session.outputMetadata, settings.outputs, settings.buckets);
  }

  addBucket(): void {
    // A session runs any batch; one that the model refuses fails when it is warmed up.
  }

  wrap(spec: TensorSpec, bucket: number, view: SharedFloat32Array): Tensor {
    // Only onnxruntime-node's own Tensor: one of onnxruntime-common, given as an output, would silently stay unfilled.
    return new this.#ort.Tensor("float32", view, [bucket, ...spec.width]);
  }

  async run(_bucket: number, inputs: readonly Tensor[], outputs: readonly Tensor[]): Promise<void> {
    const feeds: Record<string, Tensor> = {};
    for (let i = 0; i < inputs.length; i++) feeds[this.inputs[i]!.name] = inputs[i]!;
    const fetches: Record<string, Tensor> = {};
    for (let i = 0; i < outputs.length; i++) fetches[this.outputs[i]!.name] = outputs[i]!;
    try {
      await this.#session.run(feeds, fetches);
    } catch (error) {
      if (isOutOfMemory(error)) throw AcceleratorError.from(error, "out_of_memory", `${this.name} has no memory left`);
      throw error;
    }
  }

  warm(bucket: number, inputs: readonly Tensor[], outputs: readonly Tensor[]): Promise<void> {
    return this.run(bucket, inputs, outputs);
  }

  /** Runs one batch in both precisions and keeps the difference. */
  async #compareToFloat32(settings: OnnxRuntimeSettings): Promise<void> {
    const sessionConfig = { ...settings.sessionConfig, [BFLOAT16_ENTRY]: "0" };
    const exactSession = await createSession(this.#ort, { ...settings, sessionConfig });
    try {
      const { rows, inputs } = precisionSample(this.inputs, settings.buckets);
      const feeds: Record<string, Tensor> = {};
      for (const [i, spec] of this.inputs.entries()) {
        feeds[spec.name] = new this.#ort.Tensor("float32", inputs[i]!, [rows, ...spec.width]);
      }
      const names = this.outputs.map(({ name }) => name);
      const exact = await exactSession.run(feeds, names);
      const actual = await this.#session.run(feeds, names);
      const numbersOf = (results: typeof exact): Float32Array[] =>
        names.map((name) => results[name]!.data as Float32Array);
      this.precision = { ...this.precision, error: precisionError(rows, numbersOf(exact), numbersOf(actual)) };
    } finally {
      await exactSession.release();
    }
  }

  async close(): Promise<void> {
    await this.#session.release();
  }
}
