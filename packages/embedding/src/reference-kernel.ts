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

  function gatherRagged(
    ids: Int32Array,
    lengths: Int32Array,
    batch: number,
    output: Float32Array,
    outputRow: number,
    weights?: Float32Array,
  ): number {
    let next = 0;
    const bags = layout.features.flatMap((feature, f) =>
      Array.from({ length: batch }, (_, example) => {
        const first = next;
        next += lengths[f * batch + example] as number;
        const rows = Array.from(ids.subarray(first, next), (id) => resolveRow(feature.table, id));
        return { feature, example, first, rows };
      }),
    );
    for (const { first, rows } of bags) {
      const refused = rows.indexOf(OUT_OF_VOCABULARY);
      if (refused >= 0) return first + refused;
    }
    for (const { feature, example, first, rows } of bags) {
      const kept = rows.map((row, at) => ({ row, weight: weights?.[first + at] })).filter(({ row }) => row !== NO_ROW);
      const sum = sumRows(tables[feature.tableIndex] as SharedTable, kept);
      const pooled = feature.pooling === "mean" && kept.length > 0 ? sum.map((value) => value / kept.length) : sum;
      output.set(pooled, (outputRow + example) * layout.outputWidth + feature.column);
    }
    return -1;
  }

  return {
    findOutOfVocabulary,
    gatherRagged,
    gather(ids, batch, output, outputRow, weights) {
      const lengths = layout.features.flatMap(({ hotSize }) => Array.from({ length: batch }, () => hotSize));
      return gatherRagged(ids, Int32Array.from(lengths), batch, output, outputRow, weights);
    },
  };
}

/** A row, and what it is multiplied by before it is added. */
interface WeightedRow {
  readonly row: number;
  readonly weight: number | undefined;
}

/** Sum of rows, as float32. */
function sumRows(table: SharedTable, rows: readonly WeightedRow[]): Float32Array {
  const sum = new Float32Array(table.info.dim);
  let shift: number | undefined;
  let empty = true;
  for (const { row, weight } of rows) {
    const { codes, scale, bias } = decodeRow(table, row);
    // A product with 1 changes nothing.
    const factor = Math.fround((weight ?? 1) * (scale ?? 1));
    for (const [d, code] of codes.entries()) {
      const term = Math.fround(factor * code);
      sum[d] = empty ? term : (sum[d] as number) + term;
    }
    if (scale !== undefined) {
      const weighted = Math.fround((weight ?? 1) * bias);
      shift = shift === undefined ? weighted : Math.fround(shift + weighted);
    }
    empty = false;
  }
  if (shift === undefined) return sum;
  const total = shift;
  return sum.map((value) => value + total);
}
