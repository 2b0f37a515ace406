import type { KernelPlan, SharedTable } from "./kernel.ts";
import type { PlanLayout } from "./plan-layout.ts";
import { createReferencePlan } from "./reference-kernel.ts";
import { NO_ROW, OUT_OF_VOCABULARY, resolveRow } from "./table.ts";

/**
 * A plan in plain JavaScript that is as fast as plain JavaScript gets: typed arrays, no allocation a call, rows added four at a
 * time. Plans with a table that is not float32 go to the reference.
 */
export function createJavascriptPlan(layout: PlanLayout, tables: readonly SharedTable[]): KernelPlan {
  if (layout.features.some(({ table }) => table.dtype !== "float32")) return createReferencePlan(layout, tables);
  const elements = tables.map(
    ({ info, buffer, byteOffset }) => new Float32Array(buffer, byteOffset, info.rows * info.dim),
  );
  // Ids may be shared with other threads: what is checked must be what is used, so rows are kept here.
  let rows = new Int32Array(0);

  function resolve(ids: Int32Array, batch: number): number {
    if (rows.length < batch * layout.idsPerExample) rows = new Int32Array(batch * layout.idsPerExample);
    for (const { table, hotSize, hotBefore } of layout.features) {
      const end = batch * (hotBefore + hotSize);
      for (let i = batch * hotBefore; i < end; i++) {
        const row = resolveRow(table, ids[i] as number);
        if (row === OUT_OF_VOCABULARY) return i;
        rows[i] = row;
      }
    }
    return -1;
  }

  return {
    findOutOfVocabulary: resolve,
    gather(ids, batch, output, outputRow) {
      const refused = resolve(ids, batch);
      if (refused >= 0) return refused;
      for (const { tableIndex, table, hotSize, hotBefore, column } of layout.features) {
        const from = elements[tableIndex] as Float32Array;
        for (let b = 0; b < batch; b++) {
          const first = batch * hotBefore + b * hotSize;
          const to = (outputRow + b) * layout.outputWidth + column;
          poolBag(from, table.dim, rows, first, first + hotSize, output, to);
        }
      }
      return -1;
    },
  };
}

function poolBag(
  from: Float32Array,
  dim: number,
  rows: Int32Array,
  first: number,
  end: number,
  output: Float32Array,
  to: number,
): void {
  let i = first;
  while (i < end && rows[i] === NO_ROW) i++;
  if (i === end) {
    output.fill(0, to, to + dim);
    return;
  }
  const start = (rows[i++] as number) * dim;
  for (let d = 0; d < dim; d++) output[to + d] = from[start + d] as number;
  for (; i + 4 <= end; i += 4) {
    const r0 = rows[i] as number;
    const r1 = rows[i + 1] as number;
    const r2 = rows[i + 2] as number;
    const r3 = rows[i + 3] as number;
    if ((r0 | r1 | r2 | r3) < 0) break;
    addFourRows(from, dim, r0 * dim, r1 * dim, r2 * dim, r3 * dim, output, to);
  }
  for (; i < end; i++) {
    const row = rows[i] as number;
    if (row === NO_ROW) continue;
    const at = row * dim;
    for (let d = 0; d < dim; d++) output[to + d] = (output[to + d] as number) + (from[at + d] as number);
  }
}

/** Four rows with one pass over the output; each partial sum is rounded, so the bits are those of four passes. */
function addFourRows(
  from: Float32Array,
  dim: number,
  at0: number,
  at1: number,
  at2: number,
  at3: number,
  output: Float32Array,
  to: number,
): void {
  for (let d = 0; d < dim; d++) {
    let sum = Math.fround((output[to + d] as number) + (from[at0 + d] as number));
    sum = Math.fround(sum + (from[at1 + d] as number));
    sum = Math.fround(sum + (from[at2 + d] as number));
    output[to + d] = sum + (from[at3 + d] as number);
  }
}
