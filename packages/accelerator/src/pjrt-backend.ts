import { rowLength, type Backend, type InputTransferCounts, type Pipeline } from "./backend.ts";
import type { DeviceMemory, PrecisionReport, SharedFloat32Array, TensorSpec } from "./device.ts";
import { fromPjrtError, requirePjrtNative } from "./pjrt-error.ts";
import type { PjrtClient, PjrtExecutable, PjrtNative } from "./pjrt-native.ts";
import { PjrtPrograms } from "./pjrt-programs.ts";
import { precisionError, precisionSample } from "./precision-sample.ts";
import type { PjrtSettings } from "./pjrt-spec.ts";

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
  readonly #programs: PjrtPrograms;
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
    const programs = new PjrtPrograms(native, client, settings);
    try {
      for (const [index, bucket] of settings.buckets.entries()) {
        programs.prepare(bucket, settings.programs[index]!);
        onCompiled(bucket, index + 1);
      }
      const precision = precisionOf(native, client, programs, settings);
      return new PjrtBackend(native, client, programs, settings, precision);
    } catch (error) {
      programs.free();
      native.free(client);
      throw error;
    }
  }

  private constructor(
    native: PjrtNative,
    client: PjrtClient,
    programs: PjrtPrograms,
    settings: PjrtSettings,
    precision: PrecisionReport,
  ) {
    this.precision = precision;
    const { platformName, apiVersion, deviceKind } = programs.description;
    this.#native = native;
    this.#client = client;
    this.#programs = programs;
    this.#executables = programs.executables;
    this.platform = platformName;
    const kind = deviceKind === platformName ? "" : ` ${deviceKind}`;
    const rounded = precision.name === "float32" ? "" : `, ${precision.name}`;
    this.name = `PJRT ${platformName}${kind} (API ${apiVersion}${rounded})`;
    this.inputs = settings.inputs;
    this.outputs = settings.outputs;
    const { usedBytes, limitBytes } = native.memoryOf(client);
    this.memory = {
      kind: platformName === "cpu" ? "host" : "device",
      weightBytes: programs.weightBytes,
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
      this.#programs.prepare(bucket, program!);
    } catch (error) {
      this.#programs.forget(bucket);
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
    this.#programs.free();
    this.#native.free(this.#client);
  }
}

/** Runs one batch also as the programs were given, and compares. */
function precisionOf(
  native: PjrtNative,
  client: PjrtClient,
  programs: PjrtPrograms,
  settings: PjrtSettings,
): PrecisionReport {
  const name = settings.precision;
  if (name === "float32") return { name, quantizedWeights: 0 };
  const { rows, inputs } = precisionSample(settings.inputs, settings.buckets);
  const exact = new PjrtPrograms(native, client, { ...settings, precision: "float32" });
  try {
    exact.prepare(rows, settings.programs[settings.buckets.indexOf(rows)]!);
    const [wanted, actual] = [exact, programs].map(({ executables }) => {
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
