import { availableParallelism } from "node:os";
import { EmbeddingError } from "./embedding-error.ts";
import type { OutOfVocabularyId } from "./embedding-error.ts";
import { attachSession, openSession } from "./kernel-choice.ts";
import type { KernelChoice, SessionHandle } from "./kernel-choice.ts";
import type { KernelPlan, KernelSession } from "./kernel.ts";
import {
  checkIds,
  checkOutput,
  checkRagged,
  checkWeights,
  layOutPlan,
  locateId,
  locateRaggedId,
} from "./plan-layout.ts";
import type { FeatureLayout, PlanFeature, PlanLayout } from "./plan-layout.ts";
import { describeTables } from "./table-source.ts";
import { verifySha256 } from "./verify-sha256.ts";
import type { ExpectedSha256 } from "./verify-sha256.ts";
import type { EmbeddingSource, OutOfVocabularyPolicies } from "./table-source.ts";
import { tableBytesOf } from "./table.ts";
import type { TableInfo } from "./table.ts";

export interface EmbeddingStoreOptions {
  /**
   * Which kernel to use. Default: the environment's `DLRM_EMBEDDING_KERNEL`, or else the fastest that runs here. A kernel asked for by name
   * that cannot run is an error (`kernel_unavailable`), never replaced by another.
   */
  readonly kernel?: KernelChoice | undefined;
  /**
   * `memory` reads the tables into memory of this process, in huge pages. `mmap` maps the file: ready at once, shared by all processes that
   * map it, and the tables may be larger than memory; reads of rows that are not in the page cache wait for the disk. The file must not
   * be changed or cut short while it is mapped. Only the native kernel maps. Default: `memory`.
   */
  readonly mode?: "memory" | "mmap" | undefined;
  /**
   * SHA-256 (hexadecimal) that the safetensors file must have, or those of `.npy` files by table name. Costs reading files once more,
   * before loading. Default: not checked.
   */
  readonly sha256?: ExpectedSha256 | undefined;
  /** Spreads the tables (nothing else) over all NUMA nodes. Linux and the native kernel only. Default: false. */
  readonly numaInterleave?: boolean | undefined;
  /** Reads in flight while loading. Default: twice the CPUs this process may use, at least 4. */
  readonly loadConcurrency?: number | undefined;
  /** Called while loading with the bytes in place and the bytes in all. */
  readonly onProgress?: ((loadedBytes: number, totalBytes: number) => void) | undefined;
  /** Calls the loading off; the promise is then rejected with code `aborted`. */
  readonly signal?: AbortSignal | undefined;
  /** What ids without a row mean. Default: `{ kind: "error" }` for every table. */
  readonly outOfVocabulary?: OutOfVocabularyPolicies | undefined;
}

/** Everything another thread needs to use the same tables; may be posted to a worker thread. */
export interface EmbeddingStoreHandle {
  readonly tables: readonly TableInfo[];
  readonly session: SessionHandle;
}

/** Gathers and pools for a fixed list of features. Belongs to the thread that made it. */
export interface GatherPlan {
  /** Sum of the features' hot sizes. */
  readonly idsPerExample: number;
  /** Sum of the dims of the features' tables: elements of an output row. */
  readonly outputWidth: number;
  /** The first id, in the order of `ids`, that its table refuses; `undefined` if there is none. Reads no table memory. */
  findOutOfVocabulary(ids: Int32Array, batch: number): OutOfVocabularyId | undefined;
  /**
   * Pools `batch` examples into rows `outputRow` … `outputRow + batch - 1` of `output`, which is `[rows, outputWidth]`, row-major.
   * `ids` is feature-major: position `h` of feature `f` of example `b` stands at
   * `batch * (sum of the hot sizes before f) + b * hotSize[f] + h`.
   * `weights`, one for each id, multiply rows before they are added (FBGEMM's per-sample weights); a mean is still divided by the number
   * of rows. Throws `out_of_vocabulary` or `invalid_argument` before any table memory is read and with nothing written.
   */
  gather(ids: Int32Array, batch: number, output: Float32Array, outputRow: number, weights?: Float32Array): void;
  /**
   * `gather` for bags of any length, in FBGEMM's words: `lengths` is `[features, batch]`, and `ids` (FBGEMM's `indices`) are packed in the
   * same order, all bags of the first feature, then of the next. Hot sizes do not count here.
   */
  gatherRagged(
    ids: Int32Array,
    lengths: Int32Array,
    batch: number,
    output: Float32Array,
    outputRow: number,
    weights?: Float32Array,
  ): void;
  /**
   * Makes int32 ids of int64 ones, for `gather`: ids of rows stay, others become what the table's policy makes of them (`modulo` is
   * taken of the whole 64 bits). The first id that is refused, with `into` partly written; `undefined` if there is none.
   */
  narrowIds(ids: BigInt64Array, batch: number, into: Int32Array): OutOfVocabularyId | undefined;
}

/** Rows of a table, to be replaced. */
export interface RowUpdate {
  readonly table: string;
  readonly firstRow: number;
  /** Whole rows, as the table's dtype stores them. */
  readonly rows: ArrayBufferView;
}

/** What gathers, for people and their logs. */
export interface KernelInfo {
  /** `native avx512`, `wasm simd128`, … */
  readonly name: string;
  /** Why it is not the native one. */
  readonly whyNotNative?: string;
  /**
   * How the native one asks for rows before it adds them, such as `12288 bytes ahead, every 64 bytes`: of a few ways the one that was the
   * fastest with these tables on this machine when they had been loaded. What is best on one CPU reads 1.7 times as slowly on another.
   */
  readonly prefetch?: string;
}

/** Embedding tables in this process, and one thread's way to them. */
export interface EmbeddingStore {
  readonly tables: readonly TableInfo[];
  /** Bytes of all rows of all tables. */
  readonly tableBytes: number;
  /** The kernel in use. */
  readonly kernel: KernelInfo;
  /** For `attachEmbeddingStore` in other threads of this process. */
  handle(): EmbeddingStoreHandle;
  plan(features: readonly PlanFeature[]): GatherPlan;
  /**
   * Replaces rows, a range or a whole table while other threads gather: each gather sees all of `updates` or none, and never a torn row.
   * Gives the new epoch, which counts updates. The native kernel copies each 2 MiB of table that is touched, readers never wait, and the
   * memory of what was replaced returns when the last gather that reads it ends. The others replace rows in place, and a gather that
   * an update falls into is made again before it returns.
   */
  update(updates: readonly RowUpdate[]): number;
  /** Ids without a row that this thread's gathers have met, by table; only tables with a policy other than `error` count. */
  outOfVocabularyCounts(): Readonly<Record<string, number>>;
  /** Ends this thread's use. The tables' memory returns when all threads have closed (or ended) and dropped their plans. */
  close(): void;
}

/** Loads all tables of `source` into memory that every thread of this process can share. */
export async function openEmbeddingStore(
  source: EmbeddingSource,
  options: EmbeddingStoreOptions = {},
): Promise<EmbeddingStore> {
  const tables = await describeTables(source, options.outOfVocabulary);
  const concurrency = options.loadConcurrency ?? Math.max(4, 2 * availableParallelism());
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new EmbeddingError(
      "invalid_argument",
      `loadConcurrency is ${concurrency}, expected an integer of at least 1`,
    );
  }
  if (options.sha256 !== undefined) await verifySha256(source, options.sha256, options.signal);
  const mode = options.mode ?? "memory";
  if (mode !== "memory" && mode !== "mmap") {
    throw new EmbeddingError("invalid_argument", `mode is ${JSON.stringify(mode)}, expected memory or mmap`);
  }
  const { session, handle } = await openSession(options.kernel, tables, {
    concurrency,
    onProgress: options.onProgress,
    signal: options.signal,
    mapFiles: mode === "mmap",
    numaInterleave: options.numaInterleave ?? false,
  });
  const infos = tables.map(({ name, rows, dim, dtype, rowBytes, outOfVocabulary }) => ({
    name,
    rows,
    dim,
    dtype,
    rowBytes,
    outOfVocabulary,
  }));
  return new SessionStore(infos, session, handle);
}

/** Uses, in this thread, the tables another thread of this process opened. Copies nothing. */
export function attachEmbeddingStore(handle: EmbeddingStoreHandle): EmbeddingStore {
  return new SessionStore(handle.tables, attachSession(handle.tables, handle.session), handle.session);
}

class SessionStore implements EmbeddingStore {
  readonly tables: readonly TableInfo[];
  readonly tableBytes: number;
  readonly kernel: KernelInfo;
  readonly #session: KernelSession;
  readonly #handle: SessionHandle;
  /** By index of table. */
  readonly #outOfVocabulary: Float64Array;
  #closed = false;

  constructor(tables: readonly TableInfo[], session: KernelSession, handle: SessionHandle) {
    this.tables = tables;
    this.tableBytes = tables.reduce((sum, table) => sum + tableBytesOf(table), 0);
    const { whyNotNative } = handle;
    const { name, prefetch } = session;
    this.kernel = {
      name,
      ...(whyNotNative === undefined ? {} : { whyNotNative }),
      ...(prefetch === undefined ? {} : { prefetch }),
    };
    this.#session = session;
    this.#handle = handle;
    this.#outOfVocabulary = new Float64Array(tables.length);
  }

  handle(): EmbeddingStoreHandle {
    this.#checkOpen();
    return { tables: this.tables, session: this.#handle };
  }

  plan(features: readonly PlanFeature[]): GatherPlan {
    this.#checkOpen();
    const layout = layOutPlan(this.tables, features);
    return new SessionPlan(layout, this.#session.createPlan(layout), this.#outOfVocabulary, () => this.#checkOpen());
  }

  update(updates: readonly RowUpdate[]): number {
    this.#checkOpen();
    return this.#session.update(
      updates.map(({ table: name, firstRow, rows }) => {
        const table = this.tables.findIndex((info) => info.name === name);
        const info = this.tables[table];
        if (info === undefined)
          throw new EmbeddingError("unknown_table", `the store has no table ${JSON.stringify(name)}`);
        const count = rows.byteLength / info.rowBytes;
        if (!Number.isInteger(count)) {
          throw new EmbeddingError(
            "invalid_argument",
            `${rows.byteLength} bytes for table ${JSON.stringify(name)} are not whole rows of ${info.rowBytes} bytes`,
          );
        }
        if (!Number.isInteger(firstRow) || firstRow < 0 || firstRow + count > info.rows) {
          throw new EmbeddingError(
            "invalid_argument",
            `rows ${firstRow} … ${firstRow + count - 1} of table ${JSON.stringify(name)} are out of range, expected 0 … ${info.rows - 1}`,
          );
        }
        return { table, firstRow, bytes: new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength) };
      }),
    );
  }

  outOfVocabularyCounts(): Readonly<Record<string, number>> {
    return Object.fromEntries(
      this.tables
        .map(({ name }, at) => [name, this.#outOfVocabulary[at] ?? 0] as const)
        .filter(([, count]) => count > 0),
    );
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#session.close();
  }

  #checkOpen(): void {
    if (this.#closed) throw new EmbeddingError("closed", "the embedding store is closed");
  }
}

/** An int64 id as an int32 one that means the same to the table; `undefined` if it is refused. */
function narrowId(table: TableInfo, id: bigint): number | undefined {
  if (id >= 0n && id < table.rows) return Number(id);
  switch (table.outOfVocabulary.kind) {
    case "error":
      return undefined;
    case "modulo": {
      const rows = BigInt(table.rows);
      return Number(((id % rows) + rows) % rows);
    }
    default:
      // Any id without a row: the policy makes the same of all of them.
      return -1;
  }
}

class SessionPlan implements GatherPlan {
  readonly idsPerExample: number;
  readonly outputWidth: number;
  readonly #layout: PlanLayout;
  readonly #plan: KernelPlan;
  readonly #outOfVocabulary: Float64Array;
  /** Features whose ids without a row are not refused but counted. */
  readonly #lenient: readonly FeatureLayout[];
  readonly #checkOpen: () => void;

  constructor(layout: PlanLayout, plan: KernelPlan, outOfVocabulary: Float64Array, checkOpen: () => void) {
    this.idsPerExample = layout.idsPerExample;
    this.outputWidth = layout.outputWidth;
    this.#layout = layout;
    this.#plan = plan;
    this.#outOfVocabulary = outOfVocabulary;
    this.#lenient = layout.features.filter(({ table }) => table.outOfVocabulary.kind !== "error");
    this.#checkOpen = checkOpen;
  }

  findOutOfVocabulary(ids: Int32Array, batch: number): OutOfVocabularyId | undefined {
    this.#checkOpen();
    checkIds(this.#layout, ids, batch);
    const at = this.#plan.findOutOfVocabulary(ids, batch);
    return at < 0 ? undefined : { ...locateId(this.#layout, batch, at), id: ids[at] as number };
  }

  gather(ids: Int32Array, batch: number, output: Float32Array, outputRow: number, weights?: Float32Array): void {
    this.#checkOpen();
    checkIds(this.#layout, ids, batch);
    checkWeights(weights, batch * this.idsPerExample);
    checkOutput(this.#layout, batch, output, outputRow);
    const at = this.#plan.gather(ids, batch, output, outputRow, weights);
    if (at >= 0) throw this.#refusal({ ...locateId(this.#layout, batch, at), id: ids[at] as number });
    for (const { tableIndex, table, hotSize, hotBefore } of this.#lenient) {
      this.#count(tableIndex, table, ids, batch * hotBefore, batch * (hotBefore + hotSize));
    }
  }

  gatherRagged(
    ids: Int32Array,
    lengths: Int32Array,
    batch: number,
    output: Float32Array,
    outputRow: number,
    weights?: Float32Array,
  ): void {
    this.#checkOpen();
    checkWeights(weights, checkRagged(this.#layout, ids, lengths, batch));
    checkOutput(this.#layout, batch, output, outputRow);
    const at = this.#plan.gatherRagged(ids, lengths, batch, output, outputRow, weights);
    if (at >= 0) throw this.#refusal({ ...locateRaggedId(lengths, batch, at), id: ids[at] as number });
    if (this.#lenient.length === 0) return;
    let start = 0;
    for (const [f, { tableIndex, table }] of this.#layout.features.entries()) {
      const end = lengths.subarray(f * batch, (f + 1) * batch).reduce((sum, length) => sum + length, start);
      if (table.outOfVocabulary.kind !== "error") this.#count(tableIndex, table, ids, start, end);
      start = end;
    }
  }

  narrowIds(ids: BigInt64Array, batch: number, into: Int32Array): OutOfVocabularyId | undefined {
    this.#checkOpen();
    checkIds(this.#layout, into, batch);
    if (ids.length < batch * this.idsPerExample) {
      throw new EmbeddingError(
        "invalid_argument",
        `ids has ${ids.length} elements, expected at least ${batch * this.idsPerExample}`,
      );
    }
    for (const { tableIndex, table, hotSize, hotBefore } of this.#layout.features) {
      for (let i = batch * hotBefore; i < batch * (hotBefore + hotSize); i++) {
        const narrow = narrowId(table, ids[i] as bigint);
        if (narrow === undefined) return { ...locateId(this.#layout, batch, i), id: Number(ids[i]) };
        into[i] = narrow;
        // Gathering will not see that there was no row: it is counted here.
        if (narrow >= 0 && BigInt(narrow) !== ids[i]) this.#addCount(tableIndex, 1);
      }
    }
    return undefined;
  }

  /** Counts ids from `start` to `end` that have no row. */
  #count(tableIndex: number, table: TableInfo, ids: Int32Array, start: number, end: number): void {
    let count = 0;
    for (let i = start; i < end; i++) {
      if ((ids[i] as number) >>> 0 >= table.rows) count++;
    }
    this.#addCount(tableIndex, count);
  }

  #addCount(tableIndex: number, count: number): void {
    this.#outOfVocabulary[tableIndex] = (this.#outOfVocabulary[tableIndex] ?? 0) + count;
  }

  #refusal(place: OutOfVocabularyId): EmbeddingError {
    const table = this.#layout.features[place.feature]?.table;
    return new EmbeddingError(
      "out_of_vocabulary",
      `id ${place.id} of feature ${place.feature}, example ${place.example}, position ${place.position} is not a row of table ${JSON.stringify(table?.name)}, expected 0 … ${(table?.rows ?? 0) - 1}`,
      { outOfVocabulary: place },
    );
  }
}
