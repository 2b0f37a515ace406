import { EmbeddingError } from "./embedding-error.ts";
import { MAX_ROWS } from "./table.ts";
import type { TableInfo } from "./table.ts";

/** One categorical input: which table its ids belong to, and how many ids a bag has. */
export interface PlanFeature {
  readonly table: string;
  /** Ids of one example, ≥ 0. */
  readonly hotSize: number;
  /** How a bag's rows become one vector; the mean of an empty bag is zeros. Default: `sum`. */
  readonly pooling?: Pooling | undefined;
}

/** `mean` is the sum divided by the number of rows added: ids that the policy `zero` leaves out do not count. */
export type Pooling = "sum" | "mean";

/** A feature with everything about its place in ids and output worked out. */
export interface FeatureLayout {
  readonly tableIndex: number;
  readonly table: TableInfo;
  readonly hotSize: number;
  readonly pooling: Pooling;
  /** Sum of the hot sizes of the features before this one. */
  readonly hotBefore: number;
  /** First column of this feature's pooled vector in an output row. */
  readonly column: number;
}

/** Where ids are read and pooled vectors written, for a list of features. */
export interface PlanLayout {
  readonly features: readonly FeatureLayout[];
  readonly idsPerExample: number;
  readonly outputWidth: number;
}

/** Lays out `features` over `tables`. */
export function layOutPlan(tables: readonly TableInfo[], features: readonly PlanFeature[]): PlanLayout {
  const indexes = new Map(tables.map((table, index) => [table.name, index]));
  const laidOut: FeatureLayout[] = [];
  let hotBefore = 0;
  let column = 0;
  for (const [at, feature] of features.entries()) {
    const tableIndex = indexes.get(feature.table);
    const table = tableIndex === undefined ? undefined : tables[tableIndex];
    if (tableIndex === undefined || table === undefined) {
      throw new EmbeddingError(
        "unknown_table",
        `feature ${at} names table ${JSON.stringify(feature.table)}, the store has ${tables.map(({ name }) => name).join(", ")}`,
      );
    }
    const { hotSize } = feature;
    if (!Number.isInteger(hotSize) || hotSize < 0 || hotSize > MAX_HOT_SIZE) {
      throw new EmbeddingError(
        "invalid_argument",
        `feature ${at} has hot size ${hotSize}, expected 0 … ${MAX_HOT_SIZE}`,
      );
    }
    const pooling = feature.pooling ?? "sum";
    if (pooling !== "sum" && pooling !== "mean") {
      throw new EmbeddingError(
        "invalid_argument",
        `feature ${at} has pooling ${JSON.stringify(pooling)}, expected sum or mean`,
      );
    }
    laidOut.push({ tableIndex, table, hotSize, pooling, hotBefore, column });
    hotBefore += hotSize;
    column += table.dim;
  }
  if (hotBefore > MAX_ROWS || column > MAX_ROWS) {
    throw new EmbeddingError(
      "invalid_argument",
      `a plan of ${hotBefore} ids and ${column} columns an example is too large`,
    );
  }
  return { features: laidOut, idsPerExample: hotBefore, outputWidth: column };
}

/** Refuses weights that are fewer than ids. */
export function checkWeights(weights: Float32Array | undefined, count: number): void {
  if (weights === undefined) return;
  if (!(weights instanceof Float32Array)) {
    throw new EmbeddingError("invalid_argument", `weights are ${describe(weights)}, expected a Float32Array`);
  }
  if (weights.length < count) {
    throw new EmbeddingError(
      "invalid_argument",
      `weights has ${weights.length} elements, expected at least ${count}, one for each id`,
    );
  }
}

/** Refuses ids that are too few. */
export function checkIds(layout: PlanLayout, ids: Int32Array, batch: number): void {
  if (!(ids instanceof Int32Array)) {
    throw new EmbeddingError("invalid_argument", `ids are ${describe(ids)}, expected an Int32Array`);
  }
  if (!Number.isInteger(batch) || batch < 0) {
    throw new EmbeddingError("invalid_argument", `batch is ${batch}, expected an integer of at least 0`);
  }
  const needed = batch * layout.idsPerExample;
  if (ids.length < needed) {
    throw new EmbeddingError(
      "invalid_argument",
      `ids has ${ids.length} elements, expected at least ${needed} (batch ${batch} × ${layout.idsPerExample} ids an example)`,
    );
  }
}

/** Refuses lengths that are too few or negative, and ids that are fewer than lengths say. Gives the sum of lengths. */
export function checkRagged(layout: PlanLayout, ids: Int32Array, lengths: Int32Array, batch: number): number {
  checkIds({ ...layout, idsPerExample: 0 }, ids, batch);
  if (!(lengths instanceof Int32Array)) {
    throw new EmbeddingError("invalid_argument", `lengths are ${describe(lengths)}, expected an Int32Array`);
  }
  const needed = layout.features.length * batch;
  if (lengths.length < needed) {
    throw new EmbeddingError(
      "invalid_argument",
      `lengths has ${lengths.length} elements, expected at least ${needed} (${layout.features.length} features × batch ${batch})`,
    );
  }
  let sum = 0;
  for (let i = 0; i < needed; i++) {
    const length = lengths[i] as number;
    if (length < 0) throw new EmbeddingError("invalid_argument", `length ${i} is ${length}, expected at least 0`);
    sum += length;
  }
  if (sum > ids.length) {
    throw new EmbeddingError(
      "invalid_argument",
      `ids has ${ids.length} elements, expected at least ${sum}, the sum of lengths`,
    );
  }
  return sum;
}

/** Where an index into packed ids belongs. */
export function locateRaggedId(
  lengths: Int32Array,
  batch: number,
  index: number,
): { feature: number; example: number; position: number } {
  let bag = 0;
  let left = index;
  while (left >= (lengths[bag] as number)) left -= lengths[bag++] as number;
  return { feature: Math.floor(bag / batch), example: bag % batch, position: left };
}

/** Refuses an output that does not hold rows `outputRow` … `outputRow + batch - 1`. */
export function checkOutput(layout: PlanLayout, batch: number, output: Float32Array, outputRow: number): void {
  if (!(output instanceof Float32Array)) {
    throw new EmbeddingError("invalid_argument", `output is ${describe(output)}, expected a Float32Array`);
  }
  if (!Number.isInteger(outputRow) || outputRow < 0) {
    throw new EmbeddingError("invalid_argument", `outputRow is ${outputRow}, expected an integer of at least 0`);
  }
  const needed = (outputRow + batch) * layout.outputWidth;
  if (output.length < needed) {
    throw new EmbeddingError(
      "invalid_argument",
      `output has ${output.length} elements, expected at least ${needed} (rows 0 … ${outputRow + batch - 1} of ${layout.outputWidth} columns)`,
    );
  }
}

/** Where an index into feature-major ids belongs. */
export function locateId(
  layout: PlanLayout,
  batch: number,
  index: number,
): { feature: number; example: number; position: number } {
  let feature = 0;
  for (const [at, { hotBefore, hotSize }] of layout.features.entries()) {
    if (hotSize > 0 && batch * hotBefore <= index) feature = at;
  }
  const found = layout.features[feature];
  if (found === undefined || found.hotSize === 0) throw new RangeError(`no feature holds id ${index}`);
  const within = index - batch * found.hotBefore;
  return { feature, example: Math.floor(within / found.hotSize), position: within % found.hotSize };
}

const MAX_HOT_SIZE = 1_000_000;

function describe(value: unknown): string {
  return typeof value === "object" && value !== null ? value.constructor.name : typeof value;
}
