import { readFileSync, realpathSync, statSync } from "node:fs";
import { cpus } from "node:os";
import { rowLength } from "./backend.ts";
import { roundToBfloat16, toBfloat16 } from "./bfloat16-program.ts";
import type { TensorSpec } from "./device.ts";
import { AcceleratorError } from "./errors.ts";
import { ExecutableCache } from "./executable-cache.ts";
import { fromPjrtError } from "./pjrt-error.ts";
import type { PjrtBuffer, PjrtClient, PjrtClientDescription, PjrtExecutable, PjrtNative } from "./pjrt-native.ts";
import type { PjrtSettings } from "./pjrt-spec.ts";
import { hloParameters, mlirParameters, showTensor, type SignatureTensor } from "./program-signature.ts";

/** A CompileOptionsProto of one replica and one partition: with none, plugins abort the process. */
const COMPILE_OPTIONS: Uint8Array = Uint8Array.of(0x1a, 4, 0x20, 1, 0x28, 1);

/** PJRT_Buffer_Type_F32. */
const BUFFER_TYPE_F32 = 11;

/** The compiled programs of a device, one a bucket, and the weights they share. */
export class PjrtPrograms {
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

  /** Frees what a failed `prepare` made. */
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
