import type { PlanLayout } from "./plan-layout.ts";
import type { TableInfo } from "./table.ts";

/**
 * The kernel contract. For `batch` examples, `ids` feature-major:
 *
 * ```
 * row(f, b, h) = resolve(table[f], ids[batch * hotBefore[f] + b * hotSize[f] + h])   // the table's out-of-vocabulary policy
 * if any resolve() is an error: return the index of the first such id; nothing was written, no table memory was read
 * for f in features, b in 0 … batch-1:
 *   sum[0 … dim[f]-1] = 0, shift = 0
 *   for h in 0 … hotSize[f]-1, ids that resolve to no row left out:
 *     for d in 0 … dim[f]-1:
 *       sum[d] += value(row, d)                    // float32, float16, bfloat16: widened, float32 addition in the order of h
 *       sum[d] += scale(row) * code(row, d)        // int8, int4: float32 product, then float32 addition
 *     shift += bias(row)                           // int8, int4
 *     with weights, w the id's:
 *       sum[d] += w * value(row, d)                // float32 product, then float32 addition
 *       sum[d] += (w * scale(row)) * code(row, d), shift += w * bias(row)
 *   output[(outputRow + b) * outputWidth + column[f] + d] = sum[d] + shift       // mean: divided by the number of rows added
 * ```
 *
 * The first term of a sum is stored, not added to zero. Nothing is fused, so every kernel gives the same bits.
 */
export interface KernelPlan {
  /** Index into `ids` of the first id its table refuses, or -1. */
  findOutOfVocabulary(ids: Int32Array, batch: number): number;
  /**
   * Gathers and pools; -1, or the index into `ids` of the first id its table refuses, with nothing written. `weights` has one element
   * for each id. Arguments are checked.
   */
  gather(ids: Int32Array, batch: number, output: Float32Array, outputRow: number, weights?: Float32Array): number;
  /**
   * The same with bags of any length: `lengths` is `[features, batch]`, and ids are packed in the same order. Lengths are not negative and
   * their sum is no more than there are ids.
   */
  gatherRagged(
    ids: Int32Array,
    lengths: Int32Array,
    batch: number,
    output: Float32Array,
    outputRow: number,
    weights?: Float32Array,
  ): number;
}

/** One thread's access to the tables of a store by one kernel. */
export interface KernelSession {
  /** For people: `native avx2`, `wasm simd128`, … */
  readonly name: string;
  /** For people: how rows are asked for before they are added, if they are. */
  readonly prefetch?: string;
  /** What another thread needs to attach to the same tables; structured-cloneable. */
  readonly handle: unknown;
  createPlan(layout: PlanLayout): KernelPlan;
  /** Replaces rows of several tables at once; arguments are checked. Gives the new epoch. */
  update(updates: readonly KernelUpdate[]): number;
  close(): void;
}

/** Tables in shared memory that JavaScript sees. */
export interface SharedTable {
  readonly info: TableInfo;
  readonly buffer: SharedArrayBuffer;
  /** First byte of row 0 in `buffer`; a multiple of 4. */
  readonly byteOffset: number;
}

/** Whole rows, as the table stores them. */
export interface KernelUpdate {
  /** Index of the table. */
  readonly table: number;
  readonly firstRow: number;
  readonly bytes: Uint8Array;
}
