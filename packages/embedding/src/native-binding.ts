import { createRequire } from "node:module";
import { EmbeddingError } from "./embedding-error.ts";

/** A table as the binding takes it. */
export interface NativeTable {
  readonly name: string;
  readonly rows: number;
  readonly dim: number;
  readonly dtype: string;
  readonly policy: string;
  readonly defaultRow: number;
  readonly path?: string;
  readonly offset: number;
}

/** Fills tables. Its promise is rejected, and its methods throw, with messages `code|message`. */
export interface NativeLoader {
  load(threads: number): Promise<void>;
  write(table: number, at: number, bytes: Uint8Array): void;
  loadedBytes(): number;
  cancel(): void;
  finish(): NativeSession;
}

/** One thread's use of a store. */
export interface NativeSession {
  readonly id: number;
  readonly level: string;
  readonly prefetch: string;
  readonly epoch: number;
  setPrefetchDistance(rows: number): void;
  createPlan(features: Uint32Array): NativePlan;
  registerArray(array: Int32Array | Float32Array): number;
  releaseArray(slot: number): void;
  update(places: Uint32Array, bytes: readonly Uint8Array[]): number;
  close(): void;
}

/** Results are -1 (done), an index into ids (refused), or one of the codes of `NATIVE_RESULTS`. */
export interface NativePlan {
  gatherRegistered(ids: number, batch: number, output: number, outputRow: number): number;
  gather(
    ids: Int32Array,
    lengths: Int32Array | null,
    weights: Float32Array | null,
    batch: number,
    output: Float32Array,
    outputRow: number,
  ): number;
  findOutOfVocabulary(ids: Int32Array, batch: number): number;
}

/** The library's exports. */
export interface NativeBinding {
  readonly BINDING_VERSION: number;
  readonly Loader: new (tables: readonly NativeTable[], mapFiles: boolean, interleave: boolean) => NativeLoader;
  attach(id: number): NativeSession | null;
  levels(): string[];
}

/** The library, or why there is none. */
export type NativeBindingResult =
  | { readonly binding: NativeBinding }
  | { readonly whyNot: string; readonly causes: readonly Error[] };

/** The version of the binding these sources are written for. */
const BINDING_VERSION = 4;

/** Platforms that the native kernel is published for, and how npm knows them. */
export const PLATFORMS: Readonly<
  Record<string, { readonly os: readonly string[]; readonly cpu: readonly string[]; readonly libc?: readonly string[] }>
> = {
  "linux-x64-gnu": { os: ["linux"], cpu: ["x64"], libc: ["glibc"] },
  "linux-x64-musl": { os: ["linux"], cpu: ["x64"], libc: ["musl"] },
  "linux-arm64-gnu": { os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
  "linux-arm64-musl": { os: ["linux"], cpu: ["arm64"], libc: ["musl"] },
  "darwin-x64": { os: ["darwin"], cpu: ["x64"] },
  "darwin-arm64": { os: ["darwin"], cpu: ["arm64"] },
  "win32-x64": { os: ["win32"], cpu: ["x64"] },
};

/** The name of this machine's platform, one of `PLATFORMS` where there is a native kernel. */
export function platformName(): string {
  if (process.platform !== "linux") return `${process.platform}-${process.arch}`;
  // Without this a report looks every network interface up.
  Object.assign(process.report, { excludeNetwork: true });
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return `linux-${process.arch}-${header.glibcVersionRuntime === undefined ? "musl" : "gnu"}`;
}

let loaded: NativeBindingResult | undefined;

/** Loads the native library, once a thread: one built here, or else the one of the platform's package. */
export function loadNativeBinding(): NativeBindingResult {
  loaded ??= tryInOrder([`../native/dlrm-embedding.${platformName()}.node`, `@dlrm/embedding-${platformName()}`]);
  return loaded;
}

/** The first of `places` that holds a library of the right version, or why each does not. */
export function tryInOrder(places: readonly string[]): NativeBindingResult {
  const require = createRequire(import.meta.url);
  const causes: Error[] = [];
  for (const place of places) {
    try {
      const binding = require(place) as NativeBinding;
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

/** An error of the binding, as ours. */
export function fromNativeError(error: unknown, doing: string): EmbeddingError {
  const [, code, message] = (error instanceof Error && /^(\w+)\|([^]*)$/.exec(error.message)) || [];
  switch (code) {
    case "io":
    case "invalid_file":
    case "invalid_table":
    case "invalid_argument":
    case "aborted":
    case "closed":
      return new EmbeddingError(code, message ?? "", { cause: error });
    default:
      return EmbeddingError.from(error, "io", doing);
  }
}
