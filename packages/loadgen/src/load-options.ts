import type { IdDistribution } from "./id-distribution.ts";
import type { LoadProgress } from "./load-progress.ts";
import { LoadError } from "./load-error.ts";
import { parseCpuList } from "./cpu-list.ts";
import { MAX_REQUEST_EXAMPLES, type RequestSize } from "./request-size.ts";
import type { TransportKind } from "./rpc-connection.ts";
import { unknownOptions } from "./unknown-options.ts";

/** One categorical input of the model. */
export interface FeatureShape {
  /** Name of the input tensor, such as `sparse_0`. */
  readonly name: string;
  /** Rows of its table: ids are 0 to vocabularySize - 1. */
  readonly vocabularySize: number;
  /** Ids of one example. */
  readonly hotSize: number;
}

/** What a request looks like. */
export interface ModelShape {
  /** Width of the float32 input `dense`. */
  readonly denseFeatures: number;
  readonly features: readonly FeatureShape[];
}

export type LoadMode =
  /** `concurrency` callers, each with one request outstanding. */
  | { readonly kind: "closed"; readonly concurrency: number }
  /** Poisson arrivals at a mean rate of `offeredRps` requests per second, whatever the server does. */
  | { readonly kind: "open"; readonly offeredRps: number };

/** Options of {@link runLoad}. */
export interface LoadOptions {
  /** Name or address of the server, which must speak gRPC over plaintext HTTP/2 (h2c). */
  readonly host: string;
  readonly port: number;
  readonly shape: ModelShape;
  /** Sent as `model`; empty (the default) means the server's only model. */
  readonly model?: string;
  /** Element type of ids on the wire. Default `int32`. */
  readonly idType?: "int32" | "int64";
  /**
   * Examples in one request, 1 to 65,536; or `mlperf`: 100 to 700, 270 on average, as often each as in the trace that MLPerf
   * publishes for its recommendation benchmark.
   */
  readonly requestSize: RequestSize;
  readonly mode: LoadMode;
  /** Persistent connections over all processes, at least `processes`. A closed loop opens no more than it has callers. Default 64. */
  readonly connections?: number;
  /** Load processes; connections are dealt out evenly. Default: one a CPU they may use, at most 8. */
  readonly processes?: number;
  /** Seconds of load before the measured window. Default 2; 0 is allowed. */
  readonly warmupS?: number;
  /** Seconds of the measured window. Default 10. */
  readonly durationS?: number;
  /** Of ids, dense features and the schedule; an integer ≥ 0. Default 1. */
  readonly seed?: number;
  /** Default `uniform`. */
  readonly idDistribution?: IdDistribution;
  /** CPUs of the load processes, in taskset's form (`1`, `0-3,8`). Default: all that this process may use. Needs `taskset`. */
  readonly cpus?: string;
  /** The HTTP/2 client. Default `h2`. */
  readonly transport?: TransportKind;
  /** Different examples that are made before the run and then cycled through. Default 16,384; at least 64 requests a process. */
  readonly poolExamples?: number;
  /** Open loop: requests outstanding over all processes, above which a send is dropped and counted. Default 10,000. */
  readonly maxInFlight?: number;
  /** A send that is later than this after its intended time counts as late. Microseconds, default 1,000. */
  readonly lateAfterMicros?: number;
  /** Deadline sent with each request (grpc-timeout). Milliseconds, default none. */
  readonly deadlineMs?: number;
  /** How long to wait, after the window, for answers to requests of the window; then they count as DEADLINE_EXCEEDED. Seconds, default 10. */
  readonly drainS?: number;
  /** Called about every second while load runs. */
  readonly onProgress?: (progress: LoadProgress) => void;
  /** Stops the run: the load processes end, and the promise rejects with `aborted`. */
  readonly signal?: AbortSignal;
}

const OPTION_NAMES = Object.keys({
  host: true,
  port: true,
  shape: true,
  model: true,
  idType: true,
  requestSize: true,
  mode: true,
  connections: true,
  processes: true,
  warmupS: true,
  durationS: true,
  seed: true,
  idDistribution: true,
  cpus: true,
  transport: true,
  poolExamples: true,
  maxInFlight: true,
  lateAfterMicros: true,
  deadlineMs: true,
  drainS: true,
  onProgress: true,
  signal: true,
} satisfies Record<keyof LoadOptions, true>);

/** Options with every default filled in, without what cannot be sent to another process. */
export interface FilledLoadOptions extends Required<
  Omit<LoadOptions, "onProgress" | "signal" | "cpus" | "deadlineMs" | "processes">
> {
  readonly cpus: string | undefined;
  readonly deadlineMs: number | undefined;
  readonly processes: number | undefined;
}

/** All options but the shape, which may have to be asked from the server first. */
type LoadSettings = Omit<FilledLoadOptions, "shape">;

/** Checks all options and fills in the defaults; throws one LoadError that names everything that is wrong. */
export function fillLoadOptions(options: LoadOptions): FilledLoadOptions {
  const filled: FilledLoadOptions = { ...fillSettings(options), shape: options.shape };
  const problems = [...unknownOptions(options, OPTION_NAMES), ...settingProblems(options), ...wrongShape(filled.shape)];
  if (problems.length > 0) throw new LoadError("invalid_options", problems.join("; "));
  return filled;
}

/** What is wrong with options other than the shape; each begins with the option's name. */
export function settingProblems(options: Omit<LoadOptions, "shape">): string[] {
  const filled = fillSettings(options);
  return [...wrongNumbers(filled), ...wrongChoices(filled)];
}

function fillSettings(options: Omit<LoadOptions, "shape">): LoadSettings {
  return {
    host: options.host,
    port: options.port,
    model: options.model ?? "",
    idType: options.idType ?? "int32",
    requestSize: options.requestSize,
    mode: options.mode,
    connections: options.connections ?? 64,
    processes: options.processes,
    warmupS: options.warmupS ?? 2,
    durationS: options.durationS ?? 10,
    seed: options.seed ?? 1,
    idDistribution: options.idDistribution ?? "uniform",
    cpus: options.cpus,
    transport: options.transport ?? "h2",
    poolExamples: options.poolExamples ?? 16_384,
    maxInFlight: options.maxInFlight ?? 10_000,
    lateAfterMicros: options.lateAfterMicros ?? 1000,
    deadlineMs: options.deadlineMs,
    drainS: options.drainS ?? 10,
  };
}

function wrongNumbers(options: LoadSettings): string[] {
  const { mode } = options;
  const problems = [
    integer("port", options.port, 1, 65_535),
    options.requestSize === "mlperf" ? undefined : integer("requestSize", options.requestSize, 1, MAX_REQUEST_EXAMPLES),
    integer("connections", options.connections, 1, 65_536),
    options.processes === undefined ? undefined : integer("processes", options.processes, 1, 1024),
    number("warmupS", options.warmupS, 0, 86_400),
    number("durationS", options.durationS, 0.001, 86_400),
    integer("seed", options.seed, 0, Number.MAX_SAFE_INTEGER),
    integer("poolExamples", options.poolExamples, 1, 4_194_304),
    integer("maxInFlight", options.maxInFlight, 1, 10_000_000),
    number("lateAfterMicros", options.lateAfterMicros, 0, 60_000_000),
    options.deadlineMs === undefined ? undefined : integer("deadlineMs", options.deadlineMs, 1, 86_400_000),
    number("drainS", options.drainS, 0, 3600),
  ];
  if (mode?.kind === "closed") problems.push(integer("mode.concurrency", mode.concurrency, 1, 1_000_000));
  else if (mode?.kind === "open") problems.push(number("mode.offeredRps", mode.offeredRps, 0.001, 10_000_000));
  else
    problems.push(`mode.kind must be "closed" or "open", got ${show((mode as { kind?: unknown } | undefined)?.kind)}`);
  if (options.processes !== undefined && options.processes > options.connections) {
    problems.push(`processes (${options.processes}) must not exceed connections (${options.connections})`);
  }
  return problems.filter((problem) => problem !== undefined);
}

function wrongChoices(options: LoadSettings): string[] {
  const problems: string[] = [];
  const { idDistribution } = options;
  if (typeof options.host !== "string" || options.host === "") {
    problems.push(`host must be a name or an address, got ${show(options.host)}`);
  }
  if (idDistribution !== "uniform") {
    const problem = number("idDistribution.zipf", idDistribution?.zipf, 0.01, 10);
    if (problem !== undefined) problems.push(problem);
  }
  if (options.transport !== "h2" && options.transport !== "node") {
    problems.push(`transport must be "h2" or "node", got ${show(options.transport)}`);
  }
  if (options.idType !== "int32" && options.idType !== "int64") {
    problems.push(`idType must be "int32" or "int64", got ${show(options.idType)}`);
  }
  if (options.cpus !== undefined && parseCpuList(options.cpus) === undefined) {
    problems.push(`cpus must be a list such as "0-3,8", got ${show(options.cpus)}`);
  }
  return problems;
}

function wrongShape(shape: ModelShape): string[] {
  if (!Array.isArray(shape?.features)) return [`shape must be { denseFeatures, features }, got ${show(shape)}`];
  const problems: (string | undefined)[] = [integer("shape.denseFeatures", shape.denseFeatures, 0, 1_000_000)];
  for (const [i, feature] of shape.features.entries()) {
    const at = `shape.features[${i}]`;
    if (typeof feature.name !== "string" || feature.name === "") {
      problems.push(`${at}.name must be the name of an input, got ${show(feature.name)}`);
    }
    problems.push(integer(`${at}.vocabularySize`, feature.vocabularySize, 1, 2 ** 31));
    problems.push(integer(`${at}.hotSize`, feature.hotSize, 1, 65_536));
  }
  return problems.filter((problem) => problem !== undefined);
}

function integer(name: string, value: unknown, low: number, high: number): string | undefined {
  if (Number.isSafeInteger(value) && (value as number) >= low && (value as number) <= high) return undefined;
  return `${name} must be an integer from ${low} to ${high}, got ${show(value)}`;
}

function number(name: string, value: unknown, low: number, high: number): string | undefined {
  if (typeof value === "number" && value >= low && value <= high) return undefined;
  return `${name} must be a number from ${low} to ${high}, got ${show(value)}`;
}

function show(value: unknown): string {
  return typeof value === "number" ? String(value) : (JSON.stringify(value) ?? "undefined");
}
