import { EmbeddingError } from "./embedding-error.ts";
import { attachReferenceSession, openReferenceSession } from "./reference-session.ts";
import type { ReferenceHandle } from "./reference-session.ts";
import { attachWasmSession, openWasmSession } from "./wasm-session.ts";
import type { WasmHandle } from "./wasm-session.ts";
import type { KernelSession } from "./kernel.ts";
import type { LoadOptions } from "./load-tables.ts";
import { loadNativeBinding } from "./native-binding.ts";
import { attachNativeSession, openNativeSession } from "./native-session.ts";
import type { NativeHandle } from "./native-session.ts";
import type { TableInfo, TableSource } from "./table.ts";

const CHOICES = ["native", "wasm", "reference"] as const;

/** `native`, `wasm` (portable, SIMD) or `reference` (slow and plain, to compare with). */
export type KernelChoice = (typeof CHOICES)[number];

/** Which kernel a store uses, and what it needs in another thread. */
export interface SessionHandle {
  readonly kernel: KernelChoice;
  readonly whyNotNative?: string;
  readonly inner: unknown;
}

export interface OpenOptions extends LoadOptions {
  readonly mapFiles: boolean;
  readonly numaInterleave: boolean;
}

/** Opens the tables with the kernel asked for, or else the fastest that runs here. */
export async function openSession(
  asked: KernelChoice | undefined,
  tables: readonly TableSource[],
  options: OpenOptions,
): Promise<{ session: KernelSession; handle: SessionHandle }> {
  const choice = asked ?? choiceOfEnvironment();
  if (choice !== undefined && !CHOICES.includes(choice)) {
    throw new EmbeddingError("invalid_argument", `kernel is ${JSON.stringify(choice)}, expected ${CHOICES.join(", ")}`);
  }
  let whyNotNative = `${choice} was asked for`;
  if (choice === "native" || choice === undefined) {
    const native = loadNativeBinding();
    if ("binding" in native) {
      const session = await openNativeSession(native.binding, tables, options);
      return { session, handle: { kernel: "native", inner: session.handle } };
    }
    if (choice === "native") {
      const cause = new AggregateError(native.causes, native.whyNot);
      throw new EmbeddingError("kernel_unavailable", `the native kernel cannot be loaded: ${native.whyNot}`, { cause });
    }
    whyNotNative = native.whyNot;
  }
  const unsupported = options.mapFiles ? "mode mmap" : options.numaInterleave ? "numaInterleave" : undefined;
  if (unsupported !== undefined) {
    throw new EmbeddingError("unsupported", `${unsupported} needs the native kernel: ${whyNotNative}`);
  }
  const kernel = choice === "reference" ? "reference" : "wasm";
  const open = kernel === "reference" ? openReferenceSession : openWasmSession;
  const session = await open(tables, options);
  return { session, handle: { kernel, whyNotNative, inner: session.handle } };
}

/** The same tables and the same kernel in another thread. */
export function attachSession(tables: readonly TableInfo[], handle: SessionHandle): KernelSession {
  if (handle.kernel === "wasm") return attachWasmSession(tables, handle.inner as WasmHandle);
  if (handle.kernel === "reference") return attachReferenceSession(tables, handle.inner as ReferenceHandle);
  const native = loadNativeBinding();
  if ("binding" in native) return attachNativeSession(native.binding, handle.inner as NativeHandle);
  throw new EmbeddingError("kernel_unavailable", `the native kernel cannot be loaded: ${native.whyNot}`);
}

function choiceOfEnvironment(): KernelChoice | undefined {
  const value = process.env["DLRM_EMBEDDING_KERNEL"];
  if (value === undefined || value === "") return undefined;
  if (!(CHOICES as readonly string[]).includes(value)) {
    throw new EmbeddingError(
      "invalid_argument",
      `DLRM_EMBEDDING_KERNEL is ${JSON.stringify(value)}, expected ${CHOICES.join(", ")}`,
    );
  }
  return value as KernelChoice;
}
