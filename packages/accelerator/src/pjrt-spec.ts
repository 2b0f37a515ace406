import path from "node:path";
import { Problems, checkCommon, checkTensorSpecs, isPositiveInteger } from "./spec-checks.ts";
import type { CallerSettings, CommonSettings, CommonSpec } from "./device-spec.ts";
import type { TensorSpec } from "./device.ts";
import { defaultExecutableCacheDir } from "./executable-cache.ts";
import { pluginEnvironment } from "./plugin-environment.ts";
import type { CreateOptions } from "./pjrt-native.ts";
import { defaultProbeTimeoutMs } from "./pjrt-probe.ts";

/**
 * StableHLO programs, one a bucket, on the first device of a PJRT plugin: libtpu, a CUDA plugin, XLA's CPU plugin, … The
 * plugin is loaded into this process and needs the package's native binding.
 */
export interface PjrtSpec extends CommonSpec {
  readonly kind: "pjrt";
  /** The plugin's shared library. See `findPjrtPlugin` for those of a Python environment. */
  readonly pluginPath: string;
  /**
   * The program of a bucket: MLIR as text, or as bytecode (what `jax.export` serializes). Its `main` takes the inputs in
   * their order, [bucket, …width], then the weights, and returns the outputs; all are float32.
   */
  readonly program: (bucket: number) => string | Uint8Array;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Arguments after the inputs: put on the device once, when it is opened. Their dimensions are the program's. Default none. */
  readonly weights?: readonly Float32Array[];
  /**
   * `bfloat16`: products x · w of a program given as text run on bfloat16 numbers, weights rounded, activations as the sum of
   * two, sums in float32; the smallest products, up to an eighth of all multiplications, stay float32. Weights take half the
   * memory. Less exact by what `device.precision` then says. Default `float32`, which is what the program says.
   */
  readonly precision?: "float32" | "bfloat16";
  /** Options of the plugin's client. Whole numbers and bigints are passed as integers, other numbers as floats. Default none. */
  readonly createOptions?: CreateOptions;
  /**
   * Batches on the device at one time, 1 to 16: the inputs of the next are transferred while one runs. Default 2, but 1 on a
   * CPU, which has nothing to transfer.
   */
  readonly maxInFlight?: number;
  /** Threads of XLA's CPU plugin. Default: all CPUs this process may use. Other plugins ignore it. */
  readonly numThreads?: number;
  /**
   * Folder of compiled programs, or false to compile anew each time. Whoever can write there can run code here. Default:
   * `dlrm/pjrt` in `$XDG_CACHE_HOME`, or in `~/.cache`.
   */
  readonly cacheDir?: string | false;
  /**
   * Time the plugin has, in a child process of its own, to find its device, in milliseconds; each plugin is asked once a
   * process. Default 60,000, but 4,500 for libtpu on a machine without a TPU; 0 does not ask.
   */
  readonly probeTimeoutMs?: number;
}

export interface PjrtSettings extends CommonSettings {
  readonly kind: "pjrt";
  readonly pluginPath: string;
  /** By bucket, in their order. */
  readonly programs: readonly (string | Uint8Array)[];
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly weights: readonly Float32Array[];
  readonly precision: "float32" | "bfloat16";
  readonly createOptions: CreateOptions;
  /** Variables set while the plugin creates its client. */
  readonly environment: Readonly<Record<string, string>>;
  readonly cacheDir: string | undefined;
  /** Undefined leaves it to the platform. */
  readonly maxInFlight: number | undefined;
}

const MAX_MAX_IN_FLIGHT = 16;

function isCreateOptions(options: unknown): boolean {
  return (
    typeof options === "object" &&
    options !== null &&
    Object.values(options).every((value) => ["string", "number", "bigint", "boolean"].includes(typeof value))
  );
}

/** Validates once, and calls `program` for each bucket. Throws `invalid_spec` with all problems. */
export function checkPjrtSpec(spec: PjrtSpec): PjrtSettings & CallerSettings & { readonly probeTimeoutMs: number } {
  const problems = new Problems();
  const common = checkCommon(spec, problems);
  const { weights = [], precision = "float32", createOptions = {}, numThreads } = spec;
  const isPath = typeof spec.pluginPath === "string" && spec.pluginPath !== "";
  problems.expect(isPath, "pluginPath", "the path of a PJRT plugin", spec.pluginPath);
  problems.expect(typeof spec.program === "function", "program", "a function", spec.program);
  checkTensorSpecs("inputs", spec.inputs, problems);
  checkTensorSpecs("outputs", spec.outputs, problems);
  const areWeights = Array.isArray(weights) && weights.every((weight) => weight instanceof Float32Array);
  problems.expect(areWeights, "weights", "a list of Float32Arrays", weights);
  problems.expect(["float32", "bfloat16"].includes(precision), "precision", "float32 or bfloat16", precision);
  const expectedOptions = "strings, numbers, bigints or booleans by name";
  problems.expect(isCreateOptions(createOptions), "createOptions", expectedOptions, createOptions);
  const isCount = numThreads === undefined || isPositiveInteger(numThreads);
  problems.expect(isCount, "numThreads", "a positive integer", numThreads);
  const { maxInFlight } = spec;
  const isDepth = maxInFlight === undefined || (isPositiveInteger(maxInFlight) && maxInFlight <= MAX_MAX_IN_FLIGHT);
  problems.expect(isDepth, "maxInFlight", `an integer from 1 to ${MAX_MAX_IN_FLIGHT}`, maxInFlight);
  const { cacheDir = defaultExecutableCacheDir() } = spec;
  const isFolder = cacheDir === false || (typeof cacheDir === "string" && cacheDir !== "");
  problems.expect(isFolder, "cacheDir", "a folder, or false", cacheDir);
  const { probeTimeoutMs = isPath ? defaultProbeTimeoutMs(spec.pluginPath) : 0 } = spec;
  const isDuration = typeof probeTimeoutMs === "number" && probeTimeoutMs >= 0;
  problems.expect(isDuration, "probeTimeoutMs", "a number ≥ 0", probeTimeoutMs);
  problems.throwIfAny("pjrt");

  const programs = common.buckets.map((bucket) => {
    const program = spec.program(bucket);
    const isProgram = (typeof program === "string" || program instanceof Uint8Array) && program.length > 0;
    problems.expect(isProgram, `program(${bucket})`, "MLIR, text or bytecode", program);
    if (precision === "bfloat16") {
      problems.expect(typeof program === "string", `program(${bucket})`, "text, with precision bfloat16", program);
    }
    return program;
  });
  problems.throwIfAny("pjrt");
  const pluginPath = path.resolve(spec.pluginPath);
  return {
    ...common,
    kind: "pjrt",
    pluginPath,
    programs,
    inputs: spec.inputs,
    outputs: spec.outputs,
    weights,
    precision,
    // Otherwise XLA's CPU client makes four devices, and at least as many threads.
    createOptions: numThreads === undefined ? createOptions : { cpu_device_count: 1, ...createOptions },
    environment: pluginEnvironment(pluginPath, numThreads),
    cacheDir: cacheDir === false ? undefined : path.resolve(cacheDir),
    maxInFlight,
    probeTimeoutMs,
  };
}
