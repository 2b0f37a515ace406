import { readFileSync, realpathSync, statSync } from "node:fs";
import { cpus } from "node:os";
import { roundToBfloat16, toBfloat16 } from "./bfloat16-program.ts";
import { rowLength, type Backend, type InputTransferCounts, type Pipeline } from "./backend.ts";
import type { DeviceMemory, PrecisionReport, SharedFloat32Array, TensorSpec } from "./device.ts";
import { AcceleratorError } from "./errors.ts";
import { ExecutableCache } from "./executable-cache.ts";
import { fromPjrtError, requirePjrtNative } from "./pjrt-error.ts";
import type { PjrtBuffer, PjrtClient, PjrtClientDescription, PjrtExecutable, PjrtNative } from "./pjrt-native.ts";
import { precisionError, precisionSample } from "./precision-sample.ts";
import type { PjrtSettings } from "./pjrt-spec.ts";
import { hloParameters, mlirParameters, showTensor, type SignatureTensor } from "./program-signature.ts";

/** A CompileOptionsProto of one replica and one partition: with none, plugins abort the process. */
const COMPILE_OPTIONS: Uint8Array = Uint8Array.of(0x1a, 4, 0x20, 1, 0x28, 1);

/** PJRT_Buffer_Type_F32. */
const BUFFER_TYPE_F32 = 11;

const IN_PLACE = 0;
const COPIED = 1;

/** Programs on the first device of a PJRT plugin, over the caller's memory. Calls block the device's thread, and only it. */
export class PjrtBackend implements Backend<SharedFloat32Array> {
  readonly name: string;
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly precision: PrecisionReport;
  readonly memory: DeviceMemory;
  readonly inputTransfers: InputTransferCounts = new BigInt64Array(new SharedArrayBuffer(16));
  readonly pipeline?: Pipeline<SharedFloat32Array>;
  readonly #native: PjrtNative;
  readonly #client: PjrtClient;
  readonly #opening: Opening;
  readonly #executables: ReadonlyMap<number, PjrtExecutable>;

  /** Compiles all buckets; `onCompiled` is told of each. */
  static open(settings: PjrtSettings, onCompiled: (bucket: number, done: number) => void): PjrtBackend {
    const native = requirePjrtNative();
    const { pluginPath } = settings;
    let client: PjrtClient;
    try {
      client = native.openClient(pluginPath, settings.createOptions, settings.environment);
    } catch (error) {
      throw fromPjrtError(error, "provider_unavailable", `can't open a device of ${pluginPath}`);
    }
    const opening = new Opening(native, client, settings);
    try {
      for (const [index, bucket] of settings.buckets.entries()) {
        opening.prepare(bucket, settings.programs[index]!);
        onCompiled(bucket, index + 1);
      }
      const precision = precisionOf(native, client, opening, settings);
      return new PjrtBackend(native, client, opening, settings, precision);
    } catch (error) {
      opening.free();
      native.free(client);
      throw error;
    }
  }

  private constructor(
    native: PjrtNative,
    client: PjrtClient,
    opening: Opening,
    settings: PjrtSettings,
    precision: PrecisionReport,
  ) {
    this.precision = precision;
    const { platformName, apiVersion, deviceKind } = opening.description;
    this.#native = native;
    this.#client = client;
    this.#opening = opening;
    this.#executables = opening.executables;
    this.platform = platformName;
    const kind = deviceKind === platformName ? "" : ` ${deviceKind}`;
    const rounded = precision.name === "float32" ? "" : `, ${precision.name}`;
    this.name = `PJRT ${platformName}${kind} (API ${apiVersion}${rounded})`;
    this.inputs = settings.inputs;
    this.outputs = settings.outputs;
    const { usedBytes, limitBytes } = native.memoryOf(client);
    this.memory = {
      kind: platformName === "cpu" ? "host" : "device",
      weightBytes: opening.weightBytes,
      ...(usedBytes < 0 ? {} : { usedBytes }),
      ...(limitBytes < 0 ? {} : { limitBytes }),
    };
    // A CPU has nothing to transfer: two programs at a time would only take the cores from each other.
    const depth = settings.maxInFlight ?? (platformName === "cpu" ? 1 : 2);
    if (depth > 1) {
      this.pipeline = {
        depth,
        begin: (bucket, inputs, outputs) =>
          this.#tried(() => this.#native.begin(this.#executables.get(bucket)!, inputs, outputs)),
        end: (bucket) => this.#count(this.#tried(() => this.#native.end(this.#executables.get(bucket)!))),
      };
    }
  }

  addBucket(bucket: number, program: string | Uint8Array | undefined): void {
    try {
      this.#opening.prepare(bucket, program!);
    } catch (error) {
      this.#opening.forget(bucket);
      throw error;
    }
  }

  wrap(_spec: TensorSpec, _bucket: number, view: SharedFloat32Array): SharedFloat32Array {
    return view;
  }

  run(bucket: number, inputs: readonly SharedFloat32Array[], outputs: readonly SharedFloat32Array[]): void {
    this.#count(this.#tried(() => this.#native.run(this.#executables.get(bucket)!, inputs, outputs)));
  }

  #tried<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (error) {
      throw fromPjrtError(error, "run_failed", `${this.name} failed`);
    }
  }

  #count(inPlace: number): void {
    // This thread is the only one that writes them.
    this.inputTransfers[IN_PLACE]! += BigInt(inPlace);
    this.inputTransfers[COPIED]! += BigInt(this.inputs.length - inPlace);
  }

  warm(bucket: number, inputs: readonly SharedFloat32Array[], outputs: readonly SharedFloat32Array[]): void {
    this.run(bucket, inputs, outputs);
  }

  async close(): Promise<void> {
    this.#opening.free();
    this.#native.free(this.#client);
  }
}

/** Runs one batch also as the programs were given, and compares. */
function precisionOf(
  native: PjrtNative,
  client: PjrtClient,
  opening: Opening,
  settings: PjrtSettings,
): PrecisionReport {
  const name = settings.precision;
  if (name === "float32") return { name, quantizedWeights: 0 };
  const { rows, inputs } = precisionSample(settings.inputs, settings.buckets);
  const exact = new Opening(native, client, { ...settings, precision: "float32" });
  try {
    exact.prepare(rows, settings.programs[settings.buckets.indexOf(rows)]!);
    const [wanted, actual] = [exact, opening].map(({ executables }) => {
      const outputs = settings.outputs.map((spec) => new Float32Array(rows * rowLength(spec)));
      native.run(executables.get(rows)!, inputs, outputs);
      return outputs;
    }) as [Float32Array[], Float32Array[]];
    return { name, quantizedWeights: 0, error: precisionError(rows, wanted, actual) };
  } catch (error) {
    throw fromPjrtError(error, "open_failed", "the precisions can't be compared");
  } finally {
    exact.free();
  }
}

/** What opening has made so far, and what later buckets add. */
class Opening {
  readonly description: PjrtClientDescription;
  readonly executables: Map<number, PjrtExecutable> = new Map();
  weights: readonly PjrtBuffer[] = [];
  weightBytes = 0;
  readonly #native: PjrtNative;
  readonly #client: PjrtClient;
  readonly #settings: PjrtSettings;
  readonly #cache: ExecutableCache;
  readonly #cacheParts: readonly string[];
  /** Parameters of the first bucket's program that are weights. */
  #weightTensors: readonly SignatureTensor[] | undefined;

  constructor(native: PjrtNative, client: PjrtClient, settings: PjrtSettings) {
    this.#native = native;
    this.#client = client;
    this.#settings = settings;
    this.description = native.describeClient(client);
    this.#cache = new ExecutableCache(settings.cacheDir);
    this.#cacheParts = cacheParts(settings, this.description);
  }

  /** Makes one bucket ready to run. Throws `model_invalid`, `model_mismatch` or `out_of_memory`. */
  prepare(bucket: number, given: string | Uint8Array): void {
    const program = this.#inPrecision(bucket, given);
    const executable = this.#load(bucket, program);
    this.executables.set(bucket, executable);
    const parameters = this.#parametersOf(executable, program);
    if (parameters === undefined) {
      throw new AcceleratorError(
        "model_invalid",
        `the plugin does not tell what the program of bucket ${bucket} takes: give the program as MLIR text`,
      );
    }
    const { inputs, weights } = this.#settings;
    const wanted = `${inputs.length} inputs and ${weights.length} weights`;
    if (parameters.length !== inputs.length + weights.length) {
      throw mismatch(bucket, `takes ${parameters.length} arguments; the spec has ${wanted}`);
    }
    for (const [i, spec] of inputs.entries()) expectTensor(bucket, `input "${spec.name}"`, spec, parameters[i]!);
    this.#checkOutputs(bucket, executable);
    this.#uploadOnce(bucket, parameters.slice(inputs.length));
    try {
      this.#native.bind(
        executable,
        inputs.map(({ width }) => [bucket].concat(width)),
        this.weights,
      );
    } catch (error) {
      throw fromPjrtError(error, "open_failed", `the program of bucket ${bucket} can't be prepared`);
    }
  }

  forget(bucket: number): void {
    const executable = this.executables.get(bucket);
    this.executables.delete(bucket);
    if (executable !== undefined) this.#native.free(executable);
  }

  /** Frees what it made; the client is its owner's. */
  free(): void {
    for (const handle of [...this.executables.values(), ...this.weights]) this.#native.free(handle);
  }

  #inPrecision(bucket: number, program: string | Uint8Array): string | Uint8Array {
    if (this.#settings.precision === "float32" || typeof program !== "string") return program;
    const rounded = toBfloat16(program, this.#settings.inputs.length);
    if (rounded.products > 0) return rounded.program;
    throw new AcceleratorError(
      "model_invalid",
      `the program of bucket ${bucket} has no stablehlo.dot_general of float32 matrices that bfloat16 could be used for`,
    );
  }

  /** From the cache, or else compiled. */
  #load(bucket: number, program: string | Uint8Array): PjrtExecutable {
    const key = ExecutableCache.keyOf([...this.#cacheParts, program]);
    const serialized = this.#cache.read(key);
    if (serialized !== undefined) {
      try {
        return this.#native.deserialize(this.#client, serialized);
      } catch {
        // Compiled again, and written over.
      }
    }
    let executable: PjrtExecutable;
    try {
      const code = typeof program === "string" ? Buffer.from(program) : program;
      executable = this.#native.compile(this.#client, code, COMPILE_OPTIONS);
    } catch (error) {
      throw fromPjrtError(error, "model_invalid", `the program of bucket ${bucket} is not right`);
    }
    try {
      this.#cache.write(key, this.#native.serialize(executable));
    } catch {
      // A plugin need not be able to.
    }
    return executable;
  }

  #parametersOf(executable: PjrtExecutable, program: string | Uint8Array): SignatureTensor[] | undefined {
    try {
      const { format, code } = this.#native.optimizedProgram(executable);
      const parameters = hloParameters(format, code);
      if (parameters !== undefined) return parameters;
    } catch {
      // A plugin need not tell; the text does.
    }
    return typeof program === "string" ? mlirParameters(program) : undefined;
  }

  #checkOutputs(bucket: number, executable: PjrtExecutable): void {
    const { outputs } = this.#settings;
    const actual = this.#native.outputsOf(executable);
    if (actual.length !== outputs.length) {
      throw mismatch(bucket, `returns ${actual.length} tensors; the spec has ${outputs.length} outputs`);
    }
    for (const [i, spec] of outputs.entries()) {
      const { type, dimensions } = actual[i]!;
      const elementType = type === BUFFER_TYPE_F32 ? "f32" : `type-${type}`;
      expectTensor(bucket, `output "${spec.name}"`, spec, { elementType, dimensions });
    }
  }

  /** The first bucket's program says the weights' dimensions; the others must say the same. */
  #uploadOnce(bucket: number, tensors: readonly SignatureTensor[]): void {
    if (this.#weightTensors !== undefined) {
      const differs = tensors.findIndex((tensor, i) => showTensor(tensor) !== showTensor(this.#weightTensors![i]!));
      if (differs === -1) return;
      const other = showTensor(this.#weightTensors[differs]!);
      throw mismatch(bucket, `takes ${showTensor(tensors[differs]!)} as weight ${differs}, other buckets ${other}`);
    }
    for (const [i, tensor] of tensors.entries()) {
      const data = this.#settings.weights[i]!;
      const length = tensor.dimensions.reduce((product, dimension) => product * dimension, 1);
      const half = tensor.elementType === "bf16" && this.#settings.precision === "bfloat16";
      if ((tensor.elementType !== "f32" && !half) || length !== data.length) {
        throw mismatch(
          bucket,
          `takes ${showTensor(tensor)} as weight ${i}; the spec has ${data.length} float32 numbers`,
        );
      }
      try {
        const buffer = half
          ? this.#native.upload(this.#client, roundToBfloat16(data), "bfloat16", tensor.dimensions)
          : this.#native.upload(this.#client, data, "float32", tensor.dimensions);
        this.weights = [...this.weights, buffer];
        this.weightBytes += data.length * (half ? 2 : 4);
      } catch (error) {
        throw fromPjrtError(error, "open_failed", `weight ${i} can't be put on the device`);
      }
    }
    this.#weightTensors = tensors;
  }
}

function mismatch(bucket: number, what: string): AcceleratorError {
  return new AcceleratorError("model_mismatch", `the program of bucket ${bucket} ${what}`);
}

function expectTensor(bucket: number, what: string, spec: TensorSpec, actual: SignatureTensor): void {
  const expected = showTensor({ elementType: "f32", dimensions: [bucket, ...spec.width] });
  if (showTensor(actual) === expected) return;
  throw mismatch(
    bucket,
    `has ${showTensor(actual)} as ${what} (${bucket * rowLength(spec)} numbers), expected ${expected}`,
  );
}

/** What a compiled program depends on, besides the program. */
function cacheParts(settings: PjrtSettings, description: PjrtClientDescription): readonly string[] {
  const file = realpathSync(settings.pluginPath);
  const { size, mtimeMs } = statSync(file);
  const { apiVersion, platformName, platformVersion, deviceKind, attributes } = description;
  // Not as JSON, which has no bigints.
  const options = Object.entries(settings.createOptions).map(([name, value]) => `${name}=${typeof value}:${value}`);
  return [
    "compiled by PJRT",
    Buffer.from(COMPILE_OPTIONS).toString("hex"),
    JSON.stringify([file, size, mtimeMs, apiVersion, attributes]),
    JSON.stringify([platformName, platformVersion, deviceKind]),
    JSON.stringify([options, settings.environment]),
    // Code for a CPU holds what that CPU can do.
    platformName === "cpu" ? cpuFeatures() : "",
  ];
}

function cpuFeatures(): string {
  const model = `${process.arch} ${cpus()[0]?.model}`;
  try {
    return `${model} ${/^(?:flags|Features)\s*:.*$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[0]}`;
  } catch {
    return model;
  }
}
