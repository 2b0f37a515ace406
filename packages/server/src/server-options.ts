import { availableParallelism } from "node:os";
import type { Device } from "@dlrm/accelerator";
import type { Bundle } from "@dlrm/model";
import type { Logger } from "pino";
import { ServerError } from "./server-error.ts";
import type { TransportLimits } from "./transport.ts";

export const DEVICE_KINDS = ["onnxruntime", "simulated"] as const;
export type DeviceKind = (typeof DEVICE_KINDS)[number];

/** A PJRT plugin by its path, or one that is found: `PJRT_PLUGIN_PATH`, libtpu or JAX's CUDA plugin of a Python environment. */
export type PjrtDeviceName = "pjrt" | `pjrt:${string}`;
export type DeviceName = DeviceKind | PjrtDeviceName;

/** Names of devices as help and errors show them. */
export const DEVICE_NAMES: readonly string[] = [...DEVICE_KINDS, "pjrt", "pjrt:/path/of/plugin.so"];

/** Whether it is the name of a device, as `--device` and `startServer` take it. */
export function isDeviceName(name: unknown): name is DeviceName {
  return isPjrtDevice(name) || DEVICE_KINDS.includes(name as DeviceKind);
}

export function isPjrtDevice(device: unknown): device is PjrtDeviceName {
  return device === "pjrt" || (typeof device === "string" && /^pjrt:./.test(device));
}

/** What a device computes in. */
export const DEVICE_PRECISIONS = ["float32", "bfloat16", "int8"] as const;
export type DevicePrecision = (typeof DEVICE_PRECISIONS)[number];

export const BATCHING_POLICIES = ["off", "window", "adaptive"] as const;
export type BatchingPolicy = (typeof BATCHING_POLICIES)[number];

/** What speaks HTTP/2: `h2` is `@dlrm/h2`, `node` is node:http2. */
export const TRANSPORTS = ["h2", "node"] as const;
export type TransportKind = (typeof TRANSPORTS)[number];

/** What a device of your own is told. Its inputs are `dense` and `pooled`, its output `scores`, as in the bundle's ONNX file. */
export interface OpenDeviceContext {
  readonly bundle: Bundle;
  /** Batch sizes it must run, ascending. */
  readonly buckets: readonly number[];
}

export interface ServerOptions {
  /** Directory of the model bundle. */
  readonly bundle: string;
  /** Address to listen on. Default `127.0.0.1`: only this machine. */
  readonly host?: string | undefined;
  /** Port; 0 lets the system choose. Default 8500. */
  readonly port?: number | undefined;
  /** Port for `/metrics`, `/healthz` and `/readyz` over HTTP/1.1, on the same address; 0 lets the system choose. Default: none. */
  readonly adminPort?: number | undefined;
  /** What speaks HTTP/2: `h2` (default) is `@dlrm/h2`; `node` is node:http2, at several times the CPU time a request. */
  readonly transport?: TransportKind | undefined;
  /**
   * Threads that own connections, decode requests and gather rows, on one port. Default: one for each CPU this process may use,
   * at most 8, where the device is `simulated` or `pjrt`; 1 where the device needs the CPUs itself, or is a function. Also 1
   * with `batching` `off`, and where the system cannot share a port.
   */
  readonly frontends?: number | undefined;
  /** Whether several frontends may listen on one port. Default true; false acts as where the system cannot share a port. */
  readonly reusePort?: boolean | undefined;
  /** Connections at once; a new one beyond it is closed at once. Default 10,000. */
  readonly maxConnections?: number | undefined;
  /** Calls that a connection may have open; beyond it REFUSED_STREAM. Default 1024. */
  readonly maxStreamsPerConnection?: number | undefined;
  /** Largest headers of a request, octets and 32 more a field; beyond it HTTP status 431. Default 16,384. */
  readonly maxHeaderBytes?: number | undefined;
  /** What runs the dense network, or a function that opens a device of your own. Default `onnxruntime`. */
  readonly device?: DeviceName | ((context: OpenDeviceContext) => Promise<Device>) | undefined;
  /** Threads of the device. Default (also 0): the CPUs this process may use. Only for `onnxruntime`. */
  readonly deviceThreads?: number | undefined;
  /**
   * What the device computes in: `float32` (default) as the model is; `bfloat16` is for a PJRT plugin, and for `onnxruntime` on
   * arm64 CPUs that have it; `int8` for `onnxruntime`. The log says how exact it is.
   */
  readonly devicePrecision?: DevicePrecision | undefined;
  /** Least time of a batch on the `simulated` device, microseconds. Default 350. */
  readonly simulatedFixedMicros?: number | undefined;
  /** What each example adds to it, padding included, microseconds. Default 4. */
  readonly simulatedMicrosPerExample?: number | undefined;
  /**
   * When waiting requests become a batch. `adaptive` (default): at once while the device is idle, and otherwise when it
   * becomes free or waiting stops to pay; `window`: `batchTimeoutMicros` after the oldest came, or when the batch is full;
   * `off`: each request alone.
   */
  readonly batching?: BatchingPolicy | undefined;
  /** Most examples the device runs together; at most the bundle's largest bucket, which is the default. */
  readonly maxBatchSize?: number | undefined;
  /** Longest a request waits for others, microseconds. Default 1000. Ignored with `off`. */
  readonly batchTimeoutMicros?: number | undefined;
  /**
   * Batches gathered or run at one time. Default: what the device works on at one time, which is mostly 1; what comes
   * meanwhile makes the next, larger batch.
   */
  readonly maxInFlightBatches?: number | undefined;
  /** Most examples that may wait; beyond it, RESOURCE_EXHAUSTED. Default 4 × the larger of `maxBatchSize` and `maxExamplesPerRequest`. */
  readonly maxEnqueuedExamples?: number | undefined;
  /**
   * Most bytes that may wait, ids and dense features of 4 bytes each; beyond it, RESOURCE_EXHAUSTED. Default: as many as
   * `maxEnqueuedExamples` have.
   */
  readonly maxEnqueuedBytes?: number | undefined;
  /** Most examples in one request. Default 4096, or `maxBatchSize` if that is larger. */
  readonly maxExamplesPerRequest?: number | undefined;
  /** Largest request message, bytes, also after decompression. Default: what the largest request takes as JSON, in whole MiB. */
  readonly maxMessageBytes?: number | undefined;
  /**
   * Most bytes of messages that each frontend has at one time because they come in pieces (gRPC-web and Connect) or are
   * decompressed; beyond it, RESOURCE_EXHAUSTED. Default 256 MiB, or 4 × `maxMessageBytes` if that is larger.
   */
  readonly maxBufferedBytes?: number | undefined;
  /** How long `drain` waits for what is in the server, milliseconds. Default 10,000. */
  readonly drainTimeoutMs?: number | undefined;
  /** Where logs go. Default: nowhere. `dlrm-serve` logs JSON lines to stderr. */
  readonly logger?: Logger | undefined;
  /** Called when the port is bound, before the model is loaded: health checks are answered from then on. */
  readonly onListening?: ((port: number) => void) | undefined;
  /** The server can score nothing any more (its device is lost): it says NOT_SERVING, and is best replaced. */
  readonly onFatal?: ((error: Error) => void) | undefined;
  /** Aborts starting. Has no effect once the server is started. */
  readonly signal?: AbortSignal | undefined;
}

/** From JavaScript, a name that is not here is a slip. */
const OPTION_NAMES: Readonly<Record<keyof ServerOptions, true>> = {
  bundle: true,
  host: true,
  port: true,
  adminPort: true,
  transport: true,
  frontends: true,
  reusePort: true,
  maxConnections: true,
  maxStreamsPerConnection: true,
  maxHeaderBytes: true,
  device: true,
  deviceThreads: true,
  devicePrecision: true,
  simulatedFixedMicros: true,
  simulatedMicrosPerExample: true,
  batching: true,
  maxBatchSize: true,
  batchTimeoutMicros: true,
  maxInFlightBatches: true,
  maxEnqueuedExamples: true,
  maxEnqueuedBytes: true,
  maxExamplesPerRequest: true,
  maxMessageBytes: true,
  maxBufferedBytes: true,
  drainTimeoutMs: true,
  logger: true,
  onListening: true,
  onFatal: true,
  signal: true,
};

/** Options that do not depend on the model, with defaults filled in. */
export interface ResolvedOptions {
  readonly bundle: string;
  readonly host: string;
  readonly port: number;
  readonly adminPort: number | undefined;
  readonly transport: TransportKind;
  readonly transportLimits: TransportLimits;
  readonly frontends: number;
  readonly reusePort: boolean;
  readonly device: NonNullable<ServerOptions["device"]>;
  readonly deviceThreads: number;
  readonly devicePrecision: DevicePrecision;
  readonly simulatedFixedMicros: number;
  readonly simulatedMicrosPerExample: number;
  readonly batching: BatchingPolicy;
  readonly batchTimeoutMicros: number;
  /** Undefined: as many as the device works on. */
  readonly maxInFlightBatches: number | undefined;
  readonly drainTimeoutMs: number;
}

/** Limits as asked for; defaults depend on the model. */
export type LimitOptions = Pick<
  ServerOptions,
  | "maxBatchSize"
  | "maxEnqueuedExamples"
  | "maxEnqueuedBytes"
  | "maxExamplesPerRequest"
  | "maxMessageBytes"
  | "maxBufferedBytes"
>;

/** The ring has room for so many, and for as many again in place of those that end. */
const MAX_FRONTENDS = 15;
/** More of them wait for the device, and for each other, more than they bring. */
const MAX_DEFAULT_FRONTENDS = 8;

function defaultFrontends({ device, batching }: ServerOptions): number {
  const leavesCpus = device === "simulated" || isPjrtDevice(device);
  return leavesCpus && batching !== "off" ? Math.min(MAX_DEFAULT_FRONTENDS, availableParallelism()) : 1;
}

/** What a kind of device can compute in, on some machine. */
function precisionsOf(device: ServerOptions["device"]): readonly DevicePrecision[] {
  if (isPjrtDevice(device)) return ["float32", "bfloat16"];
  return device === "onnxruntime" ? DEVICE_PRECISIONS : ["float32"];
}

/** A minute. */
const MAX_SIMULATED_MICROS = 60_000_000;
const MAX_INT32 = 2 ** 31 - 1;
const MAX_PORT = 65_535;
const MAX_TIMER_MS = MAX_INT32;

/** Checks everything that can be checked without the model; throws `invalid_options` with all problems. */
export function resolveOptions(options: ServerOptions): ResolvedOptions {
  const resolved: ResolvedOptions = {
    bundle: options.bundle,
    host: options.host ?? "127.0.0.1",
    port: options.port ?? 8500,
    adminPort: options.adminPort,
    transport: options.transport ?? "h2",
    transportLimits: {
      maxConnections: options.maxConnections ?? 10_000,
      maxStreamsPerConnection: options.maxStreamsPerConnection ?? 1024,
      maxHeaderBytes: options.maxHeaderBytes ?? 16_384,
    },
    frontends: options.frontends ?? defaultFrontends(options),
    reusePort: options.reusePort ?? true,
    device: options.device ?? "onnxruntime",
    deviceThreads: options.deviceThreads ?? 0,
    devicePrecision: options.devicePrecision ?? "float32",
    simulatedFixedMicros: options.simulatedFixedMicros ?? 350,
    simulatedMicrosPerExample: options.simulatedMicrosPerExample ?? 4,
    batching: options.batching ?? "adaptive",
    batchTimeoutMicros: options.batchTimeoutMicros ?? 1000,
    maxInFlightBatches: options.maxInFlightBatches,
    drainTimeoutMs: options.drainTimeoutMs ?? 10_000,
  };
  const problems = Object.keys(options)
    .filter((name) => !Object.hasOwn(OPTION_NAMES, name))
    .map((name) => `there is no option ${name}, expected only ${Object.keys(OPTION_NAMES).join(", ")}`);
  if (typeof resolved.bundle !== "string" || resolved.bundle === "") {
    problems.push(`bundle must be a directory, got ${JSON.stringify(resolved.bundle)}`);
  }
  const integer = (name: string, value: number | undefined, least: number, most: number): void => {
    if (value !== undefined && !(Number.isInteger(value) && value >= least && value <= most)) {
      problems.push(`${name} must be an integer from ${least} to ${most}, got ${shown(value)}`);
    }
  };
  const micros = (name: keyof ServerOptions, value: number): void => {
    if (typeof value !== "number" || !(value >= 0 && value <= MAX_SIMULATED_MICROS)) {
      problems.push(`${name} must be a number from 0 to ${MAX_SIMULATED_MICROS}, got ${shown(value)}`);
    } else if (options[name] !== undefined && resolved.device !== "simulated") {
      problems.push(`${name} is for device "simulated" alone, and device is ${shown(resolved.device)}`);
    }
  };
  const oneOf = (name: string, value: unknown, values: readonly string[]): void => {
    if (!values.includes(value as string)) {
      problems.push(`${name} must be one of ${values.join(", ")}, got ${JSON.stringify(value)}`);
    }
  };
  integer("port", resolved.port, 0, MAX_PORT);
  integer("adminPort", options.adminPort, 0, MAX_PORT);
  if (resolved.port !== 0 && resolved.port === options.adminPort) {
    problems.push(`port and adminPort must differ, got ${resolved.port} for both`);
  }
  if (typeof resolved.device !== "function" && !isDeviceName(resolved.device)) {
    oneOf("device", resolved.device, DEVICE_NAMES);
  }
  oneOf("devicePrecision", resolved.devicePrecision, precisionsOf(resolved.device));
  micros("simulatedFixedMicros", resolved.simulatedFixedMicros);
  micros("simulatedMicrosPerExample", resolved.simulatedMicrosPerExample);
  oneOf("transport", resolved.transport, TRANSPORTS);
  integer("frontends", options.frontends, 1, MAX_FRONTENDS);
  integer("maxConnections", options.maxConnections, 1, MAX_INT32);
  integer("maxStreamsPerConnection", options.maxStreamsPerConnection, 1, MAX_INT32);
  integer("maxHeaderBytes", options.maxHeaderBytes, 256, 1 << 24);
  oneOf("batching", resolved.batching, BATCHING_POLICIES);
  integer("deviceThreads", resolved.deviceThreads, 0, 1024);
  integer("batchTimeoutMicros", resolved.batchTimeoutMicros, 0, 60_000_000);
  integer("maxInFlightBatches", options.maxInFlightBatches, 1, 16);
  integer("drainTimeoutMs", resolved.drainTimeoutMs, 0, MAX_TIMER_MS);
  integer("maxBatchSize", options.maxBatchSize, 1, MAX_INT32);
  integer("maxEnqueuedExamples", options.maxEnqueuedExamples, 1, MAX_INT32);
  integer("maxEnqueuedBytes", options.maxEnqueuedBytes, 1, Number.MAX_SAFE_INTEGER);
  integer("maxExamplesPerRequest", options.maxExamplesPerRequest, 1, MAX_INT32);
  integer("maxMessageBytes", options.maxMessageBytes, 1, MAX_INT32);
  integer("maxBufferedBytes", options.maxBufferedBytes, 1, Number.MAX_SAFE_INTEGER);
  if (problems.length > 0) throw new ServerError("invalid_options", problems.join("; "));
  return resolved;
}

function shown(value: unknown): string {
  return typeof value === "function" ? "a function" : (JSON.stringify(value) ?? String(value));
}
