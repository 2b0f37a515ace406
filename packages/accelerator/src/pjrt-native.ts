import { createRequire } from "node:module";

declare const handle: unique symbol;
/** Opaque objects of the binding: each is freed by `free`, or when it is garbage. */
export type PjrtClient = { readonly [handle]: "client" };
export type PjrtExecutable = { readonly [handle]: "executable" };
export type PjrtBuffer = { readonly [handle]: "buffer" };

export type CreateOptions = Readonly<Record<string, string | number | bigint | boolean>>;

export interface PjrtClientDescription {
  /** Of the plugin, `0.81` or later. */
  readonly apiVersion: string;
  readonly platformName: string;
  readonly platformVersion: string;
  /** Of the first device. */
  readonly deviceKind: string;
  /** How many devices this process has. */
  readonly devices: number;
  readonly attributes: Readonly<Record<string, string>>;
}

export interface PjrtLiveObjects {
  readonly clients: number;
  readonly executables: number;
  /** Weights, inputs and results. */
  readonly buffers: number;
  readonly events: number;
}

/** The binding's exports (see `native/pjrt/binding.cc`). What they throw has a `code`: the binding's, or PJRT's in lower case. */
export interface PjrtNative {
  readonly BINDING_VERSION: number;
  addressOf(array: Float32Array): bigint;
  openClient(pluginPath: string, options: CreateOptions, environment: Readonly<Record<string, string>>): PjrtClient;
  describeClient(client: PjrtClient): PjrtClientDescription;
  /** Of the client's first device; -1 for what the plugin does not tell. */
  memoryOf(client: PjrtClient): { readonly usedBytes: number; readonly limitBytes: number };
  compile(client: PjrtClient, program: Uint8Array, compileOptions: Uint8Array): PjrtExecutable;
  serialize(executable: PjrtExecutable): Uint8Array;
  deserialize(client: PjrtClient, bytes: Uint8Array): PjrtExecutable;
  outputsOf(executable: PjrtExecutable): readonly { readonly type: number; readonly dimensions: readonly number[] }[];
  optimizedProgram(executable: PjrtExecutable): { readonly format: string; readonly code: Uint8Array };
  upload(
    client: PjrtClient,
    data: Float32Array | Uint16Array,
    type: "float32" | "bfloat16",
    dimensions: readonly number[],
  ): PjrtBuffer;
  bind(
    executable: PjrtExecutable,
    inputDimensions: readonly (readonly number[])[],
    weights: readonly PjrtBuffer[],
  ): void;
  /** Blocks until the outputs are written. Returns how many inputs the device read in place. */
  run(executable: PjrtExecutable, inputs: readonly Float32Array[], outputs: readonly Float32Array[]): number;
  /** Starts a call and does not wait. The tensors must stay reachable, and are the device's, until the call has ended. */
  begin(executable: PjrtExecutable, inputs: readonly Float32Array[], outputs: readonly Float32Array[]): void;
  /** Blocks until the oldest call that was begun is done. Returns what `run` does. */
  end(executable: PjrtExecutable): number;
  /** What the calling thread's scheduling slice is after this wish, microseconds; 0 where the system takes none. */
  setThreadSlice(micros: number): number;
  /** What this process, with all its threads, has of plugins and has not given back. */
  liveObjects(): PjrtLiveObjects;
  free(handle: PjrtClient | PjrtExecutable | PjrtBuffer): void;
}

/** The binding, or why there is none. */
export type PjrtNativeResult =
  | { readonly binding: PjrtNative }
  | { readonly whyNot: string; readonly causes: readonly Error[] };

/** The version of the binding these sources are written for. */
const BINDING_VERSION = 3;

/** Platforms that the binding is published for, and how npm knows them. There are no plugins for Windows. */
export const PLATFORMS: Readonly<
  Record<string, { readonly os: readonly string[]; readonly cpu: readonly string[]; readonly libc?: readonly string[] }>
> = {
  "linux-x64-gnu": { os: ["linux"], cpu: ["x64"], libc: ["glibc"] },
  "linux-x64-musl": { os: ["linux"], cpu: ["x64"], libc: ["musl"] },
  "linux-arm64-gnu": { os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
  "linux-arm64-musl": { os: ["linux"], cpu: ["arm64"], libc: ["musl"] },
  "darwin-x64": { os: ["darwin"], cpu: ["x64"] },
  "darwin-arm64": { os: ["darwin"], cpu: ["arm64"] },
};

/** The name of this machine's platform, one of `PLATFORMS` where there is a binding. */
export function platformName(): string {
  if (process.platform !== "linux") return `${process.platform}-${process.arch}`;
  // Without this a report looks every network interface up.
  Object.assign(process.report, { excludeNetwork: true });
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return `linux-${process.arch}-${header.glibcVersionRuntime === undefined ? "musl" : "gnu"}`;
}

let loaded: PjrtNativeResult | undefined;

/** Loads the binding, once a thread: one built here, or else the one of the platform's package. */
export function loadPjrtNative(): PjrtNativeResult {
  loaded ??= tryInOrder([`../native/dlrm-pjrt.${platformName()}.node`, `@dlrm/accelerator-${platformName()}`]);
  return loaded;
}

/** The first of `places` that holds a binding of the right version, or why each does not. */
export function tryInOrder(places: readonly string[]): PjrtNativeResult {
  const require = createRequire(import.meta.url);
  const causes: Error[] = [];
  for (const place of places) {
    try {
      const binding = require(place) as PjrtNative;
      if (binding.BINDING_VERSION === BINDING_VERSION) return { binding };
      throw new Error(`version ${binding.BINDING_VERSION} of the binding, expected ${BINDING_VERSION}`);
    } catch (error) {
      causes.push(error instanceof Error ? error : new Error(String(error)));
    }
  }
  const reasons = places.map((place, at) => `${place}: ${shortReason(causes[at])}`);
  return { whyNot: reasons.join("; "), causes };
}

function shortReason(error: (Error & { code?: string }) | undefined): string {
  if (error?.code === "MODULE_NOT_FOUND") return "not there";
  return error?.message.split("\n")[0] ?? "unknown";
}
