import type { RowSource } from "./row-source.ts";

/** How a row's elements are stored. Pooled output is always float32. */
export type TableDtype = "float32" | "float16" | "bfloat16" | "int8" | "int4";

export const TABLE_DTYPES: readonly TableDtype[] = ["float32", "float16", "bfloat16", "int8", "int4"];

/**
 * What an id without a row (negative, or ≥ rows) means:
 *
 * - `error`: the call fails before any table memory is touched.
 * - `zero`: the id adds nothing to its bag.
 * - `default-row`: row `row` is used instead.
 * - `modulo`: row `id mod rows` is used, the non-negative remainder.
 */
export type OutOfVocabularyPolicy =
  | { readonly kind: "error" }
  | { readonly kind: "zero" }
  | { readonly kind: "default-row"; readonly row: number }
  | { readonly kind: "modulo" };

/** One embedding table: `rows` × `dim` elements, row-major. */
export interface TableInfo {
  readonly name: string;
  readonly rows: number;
  readonly dim: number;
  readonly dtype: TableDtype;
  /** Bytes from one row to the next. */
  readonly rowBytes: number;
  readonly outOfVocabulary: OutOfVocabularyPolicy;
}

/** A table that is not loaded yet. */
export interface TableSource extends TableInfo {
  readonly source: RowSource;
}

/** The largest number of rows: ids are int32. */
export const MAX_ROWS = 2_147_483_647;

/** The largest embedding dimension. */
export const MAX_DIM = 65_536;

/**
 * Bytes of one row. The quantized formats are FBGEMM's fused row-wise ones:
 * int8 is `dim` uint8 codes, then float32 scale and float32 bias;
 * int4 is `ceil(dim / 2)` bytes of two uint4 codes (the even element in the low half), then float16 scale and bias.
 * Value of an element: `scale * code + bias`.
 */
export function rowBytesOf(dtype: TableDtype, dim: number): number {
  switch (dtype) {
    case "float32":
      return dim * 4;
    case "float16":
    case "bfloat16":
      return dim * 2;
    case "int8":
      return dim + 8;
    default:
      dtype satisfies "int4";
      return Math.ceil(dim / 2) + 4;
  }
}

/** Bytes of all rows of a table. */
export function tableBytesOf(table: { readonly rows: number; readonly rowBytes: number }): number {
  return table.rows * table.rowBytes;
}

/** The row an id stands for: ≥ 0, or `NO_ROW` (adds nothing), or `OUT_OF_VOCABULARY` (an error). */
export function resolveRow(table: TableInfo, id: number): number {
  if (id >= 0 && id < table.rows) return id;
  const policy = table.outOfVocabulary;
  switch (policy.kind) {
    case "error":
      return OUT_OF_VOCABULARY;
    case "zero":
      return NO_ROW;
    case "default-row":
      return policy.row;
    default: {
      policy.kind satisfies "modulo";
      const remainder = id % table.rows;
      // `+ 0` turns JavaScript's negative zero into zero.
      return remainder < 0 ? remainder + table.rows : remainder + 0;
    }
  }
}

/** Result of `resolveRow`: the id adds nothing to its bag. */
export const NO_ROW = -1;
/** Result of `resolveRow`: the id is refused. */
export const OUT_OF_VOCABULARY = -2;
