import { EmbeddingError } from "./embedding-error.ts";
import type { KernelPlan, KernelSession, KernelUpdate } from "./kernel.ts";
import { abortError } from "./load-tables.ts";
import type { LoadOptions } from "./load-tables.ts";
import { fromNativeError } from "./native-binding.ts";
import type { NativeBinding, NativeLoader, NativePlan, NativeSession, NativeTable } from "./native-binding.ts";
import type { PlanLayout } from "./plan-layout.ts";
import { tableBytesOf } from "./table.ts";
import type { TableSource } from "./table.ts";

/** What another thread needs: the library keeps a list of the process's stores. */
export interface NativeHandle {
  readonly storeId: number;
}

/** How often progress is reported while the library's threads read. */
const PROGRESS_INTERVAL_MS = 100;

/** Loads tables into memory of the native library: huge pages, read by several threads, or mapped. */
export async function openNativeSession(
  binding: NativeBinding,
  tables: readonly TableSource[],
  options: LoadOptions & { mapFiles: boolean; numaInterleave: boolean },
): Promise<KernelSession> {
  const { signal } = options;
  if (signal?.aborted === true) throw abortError(signal);
  let loader: NativeLoader | undefined;
  const cancel = () => loader?.cancel();
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    loader = new binding.Loader(tables.map(toNativeTable), options.mapFiles, options.numaInterleave);
    await load(loader, tables, options);
    return new NativeKernelSession(loader.finish());
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("aborted|") && signal !== undefined)
      throw abortError(signal);
    throw fromNativeError(error, "cannot load tables");
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}

/** The same tables in another thread. */
export function attachNativeSession(binding: NativeBinding, handle: NativeHandle): KernelSession {
  const session = binding.attach(handle.storeId);
  if (session === null) {
    throw new EmbeddingError(
      "closed",
      `store ${handle.storeId} is not open in this process: all its threads have closed it`,
    );
  }
  return new NativeKernelSession(session);
}

async function load(loader: NativeLoader, tables: readonly TableSource[], options: LoadOptions): Promise<void> {
  const totalBytes = tables.reduce((sum, table) => sum + tableBytesOf(table), 0);
  for (const [at, { source }] of tables.entries()) {
    if (source.kind === "memory") loader.write(at, 0, source.bytes);
  }
  const { onProgress } = options;
  const timer = onProgress && setInterval(() => onProgress(loader.loadedBytes(), totalBytes), PROGRESS_INTERVAL_MS);
  try {
    await loader.load(options.concurrency);
  } finally {
    clearInterval(timer);
  }
  onProgress?.(totalBytes, totalBytes);
}

function toNativeTable({ name, rows, dim, dtype, outOfVocabulary, source }: TableSource): NativeTable {
  return {
    name,
    rows,
    dim,
    dtype,
    policy: outOfVocabulary.kind,
    defaultRow: outOfVocabulary.kind === "default-row" ? outOfVocabulary.row : 0,
    ...(source.kind === "file" ? { path: source.path, offset: source.offset } : { offset: 0 }),
  };
}

class NativeKernelSession implements KernelSession {
  readonly name: string;
  readonly prefetch: string;
  readonly handle: NativeHandle;
  readonly #session: NativeSession;
  readonly #arrays: ArrayRegistry;

  constructor(session: NativeSession) {
    this.#session = session;
    this.#arrays = new ArrayRegistry(session);
    this.name = `native ${session.level}`;
    this.prefetch = session.prefetch;
    this.handle = { storeId: session.id };
  }

  createPlan(layout: PlanLayout): KernelPlan {
    const numbers = layout.features.flatMap(({ tableIndex, hotSize, pooling }) => [
      tableIndex,
      hotSize,
      pooling === "mean" ? 1 : 0,
    ]);
    return new NativeKernelPlan(this.#session.createPlan(Uint32Array.from(numbers)), this.#arrays);
  }

  update(updates: readonly KernelUpdate[]): number {
    const places = Uint32Array.from(updates.flatMap(({ table, firstRow }) => [table, firstRow]));
    // Bytes that other threads may change meanwhile are copied first.
    const bytes = updates.map((update) =>
      update.bytes.buffer instanceof SharedArrayBuffer ? update.bytes.slice() : update.bytes,
    );
    try {
      return this.#session.update(places, bytes);
    } catch (error) {
      throw fromNativeError(error, "cannot update tables");
    }
  }

  close(): void {
    this.#session.close();
  }
}

/**
 * Arrays over shared memory, by the numbers the library knows them by. A number lives as long as its array: the library keeps the buffer
 * alive, not the array.
 */
class ArrayRegistry {
  readonly #session: NativeSession;
  readonly #slots = new WeakMap<object, number>();
  readonly #finalization: FinalizationRegistry<number>;

  constructor(session: NativeSession) {
    this.#session = session;
    this.#finalization = new FinalizationRegistry((slot) => session.releaseArray(slot));
  }

  /** The array's number, or -1 if it is not over shared memory. */
  slotOf(array: Int32Array | Float32Array): number {
    let slot = this.#slots.get(array);
    if (slot === undefined) {
      slot = array.buffer instanceof SharedArrayBuffer ? this.#session.registerArray(array) : -1;
      this.#slots.set(array, slot);
      if (slot >= 0) this.#finalization.register(array, slot);
    }
    return slot;
  }
}

class NativeKernelPlan implements KernelPlan {
  readonly #plan: NativePlan;
  readonly #arrays: ArrayRegistry;

  constructor(plan: NativePlan, arrays: ArrayRegistry) {
    this.#plan = plan;
    this.#arrays = arrays;
  }

  findOutOfVocabulary(ids: Int32Array, batch: number): number {
    return checked(this.#plan.findOutOfVocabulary(ids, batch));
  }

  gather(ids: Int32Array, batch: number, output: Float32Array, outputRow: number, weights?: Float32Array): number {
    if (weights === undefined) {
      const idsSlot = this.#arrays.slotOf(ids);
      const outputSlot = this.#arrays.slotOf(output);
      if (idsSlot >= 0 && outputSlot >= 0) {
        return checked(this.#plan.gatherRegistered(idsSlot, batch, outputSlot, outputRow));
      }
    }
    return checked(this.#plan.gather(ids, null, weights ?? null, batch, output, outputRow));
  }

  gatherRagged(
    ids: Int32Array,
    lengths: Int32Array,
    batch: number,
    output: Float32Array,
    outputRow: number,
    weights?: Float32Array,
  ): number {
    return checked(this.#plan.gather(ids, lengths, weights ?? null, batch, output, outputRow));
  }
}

/** A result of the library that is no mistake of ours. */
function checked(result: number): number {
  if (result >= -1) return result;
  if (result === -2) throw new EmbeddingError("closed", "the embedding store is closed");
  throw new EmbeddingError("invalid_argument", "ids, lengths, weights or output are not arrays that hold this batch");
}
