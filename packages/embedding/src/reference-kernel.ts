import type { KernelPlan, SharedTable } from "./kernel.ts";
import type { PlanLayout } from "./plan-layout.ts";
import { decodeRow } from "./row-decoder.ts";
import { NO_ROW, OUT_OF_VOCABULARY, resolveRow } from "./table.ts";

/** The contract of `KernelPlan`, written as plainly as it is stated: what every faster kernel is tested against. */
export function createReferencePlan(layout: PlanLayout, tables: readonly SharedTable[]): KernelPlan {
  function findOutOfVocabulary(ids: Int32Array, batch: number): number {
    for (const { table, hotSize, hotBefore } of layout.features) {
      for (let i = batch * hotBefore; i < batch * (hotBefore + hotSize); i++) {
        if (resolveRow(table, ids[i] as number) === OUT_OF_VOCABULARY) return i;
      }
    }
    return -1;
  }

  return {
    findOutOfVocabulary,
    gather(ids, batch, output, outputRow) {
      // Ids may be shared with other threads: what is checked must be what is used.
      const ownIds = ids.slice(0, batch * layout.idsPerExample);
      const refused = findOutOfVocabulary(ownIds, batch);
      if (refused >= 0) return refused;
      for (const feature of layout.features) {
        for (let b = 0; b < batch; b++) {
          const first = batch * feature.hotBefore + b * feature.hotSize;
          const rows = Array.from(ownIds.subarray(first, first + feature.hotSize), (id) =>
            resolveRow(feature.table, id),
          );
          const kept = rows.filter((row) => row !== NO_ROW);
          const sum = sumRows(tables[feature.tableIndex] as SharedTable, kept);
          const pooled = feature.pooling === "mean" && kept.length > 0 ? sum.map((value) => value / kept.length) : sum;
          output.set(pooled, (outputRow + b) * layout.outputWidth + feature.column);
        }
      }
      return -1;
    },
  };
}

/** Sum of rows, as float32. */
function sumRows(table: SharedTable, rows: readonly number[]): Float32Array {
  const sum = new Float32Array(table.info.dim);
  let shift: number | undefined;
  let empty = true;
  for (const row of rows) {
    const { codes, scale, bias } = decodeRow(table, row);
    for (const [d, code] of codes.entries()) {
      const term = scale === undefined ? code : Math.fround(scale * code);
      sum[d] = empty ? term : (sum[d] as number) + term;
    }
    if (scale !== undefined) shift = shift === undefined ? bias : Math.fround(shift + bias);
    empty = false;
  }
  if (shift === undefined) return sum;
  const total = shift;
  return sum.map((value) => value + total);
}
