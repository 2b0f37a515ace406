import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { EmbeddingError } from "./embedding-error.ts";
import { readNpyHeader } from "./npy.ts";
import { readSafetensorsHeader } from "./safetensors.ts";
import type { SafetensorsEntry } from "./safetensors.ts";
import { MAX_DIM, MAX_ROWS, TABLE_DTYPES, rowBytesOf, tableBytesOf } from "./table.ts";
import type { OutOfVocabularyPolicy, TableDtype, TableSource } from "./table.ts";

/** Where a store's tables come from. */
export type EmbeddingSource =
  | {
      /**
       * Path of a safetensors file. Every tensor whose name does not start with `__padding_` is a table `[rows, dim]` of
       * dtype F32, F16 or BF16. A U8 tensor `[rows, rowBytes]` is a quantized table if the file's `__metadata__` has an entry
       * `embedding.<name>` with the JSON text `{"dtype": "int8" | "int4", "dim": n}`.
       */
      readonly safetensors: string;
    }
  | {
      /** Paths of `.npy` files by table name: `[rows, dim]` arrays of float32 or float16 in C order. */
      readonly npy: Readonly<Record<string, string>>;
    }
  | {
      /** Rows given in memory, by table name. They are copied. */
      readonly rows: Readonly<Record<string, TableRows>>;
    };

/** All rows of a table, one after the other. */
export interface TableRows {
  readonly dim: number;
  /** Default: `float32`. */
  readonly dtype?: TableDtype;
  /** Rows as the dtype stores them: a Float32Array for float32, a Uint16Array or Float16Array for 16 bits, a Uint8Array for quantized. */
  readonly data: ArrayBufferView;
}

/** A policy for every table, or one for each table by name (tables left out: `error`). */
export type OutOfVocabularyPolicies =
  | OutOfVocabularyPolicy
  | { readonly tables: Readonly<Record<string, OutOfVocabularyPolicy>> };

const FLOAT_DTYPES: Readonly<Record<string, TableDtype>> = { F32: "float32", F16: "float16", BF16: "bfloat16" };

const NPY_DTYPES: Readonly<Record<string, TableDtype>> = { "<f4": "float32", "<f2": "float16" };

/** Finds the tables of a source and checks everything that can be checked without reading rows. */
export async function describeTables(
  source: EmbeddingSource,
  policies: OutOfVocabularyPolicies = { kind: "error" },
): Promise<readonly TableSource[]> {
  return withPolicies(await findTables(source), policies);
}

async function findTables(source: EmbeddingSource): Promise<readonly UncheckedTable[]> {
  if ("safetensors" in source) return withFile(source.safetensors, tablesOfSafetensors);
  if ("npy" in source) {
    return Promise.all(
      Object.entries(source.npy).map(([name, path]) => withFile(path, (file) => tableOfNpy(name, file, path))),
    );
  }
  return Object.entries(source.rows).map(([name, rows]) => tableOfRows(name, rows));
}

async function withFile<Result>(
  path: string,
  use: (file: FileHandle, path: string) => Promise<Result>,
): Promise<Result> {
  const file = await open(path).catch((error: unknown) => {
    throw EmbeddingError.from(error, "io", `cannot open ${path}`);
  });
  try {
    return await use(file, path);
  } finally {
    await file.close();
  }
}

async function tablesOfSafetensors(file: FileHandle, path: string): Promise<readonly UncheckedTable[]> {
  const header = await readSafetensorsHeader(file, path);
  return header.entries
    .filter((entry) => !entry.name.startsWith("__padding_"))
    .map((entry) => tableOfEntry(entry, path, header.metadata[`embedding.${entry.name}`]));
}

async function tableOfNpy(name: string, file: FileHandle, path: string): Promise<UncheckedTable> {
  const { descr, shape, offset } = await readNpyHeader(file, path);
  const where = `${path}: table ${JSON.stringify(name)} at offset ${offset}`;
  const dtype = Object.hasOwn(NPY_DTYPES, descr) ? NPY_DTYPES[descr] : undefined;
  if (dtype === undefined) {
    throw new EmbeddingError("invalid_table", `${where} has dtype ${JSON.stringify(descr)}, expected <f4 or <f2`);
  }
  const { rows, dim } = checkShape(shape, where);
  const table = sized({ name, rows, dim, dtype, source: { kind: "file", path, offset } }, where);
  const fileBytes = (await file.stat()).size;
  if (fileBytes !== offset + tableBytesOf(table)) {
    throw new EmbeddingError(
      "invalid_file",
      `${where} of ${tableBytesOf(table)} bytes is ${fileBytes < offset + tableBytesOf(table) ? "truncated" : "followed by other data"}: the file has ${fileBytes} bytes`,
    );
  }
  return table;
}

function tableOfRows(name: string, { dim, dtype = "float32", data }: TableRows): UncheckedTable {
  const where = `table ${JSON.stringify(name)}`;
  if (!TABLE_DTYPES.includes(dtype)) {
    throw new EmbeddingError(
      "invalid_table",
      `${where} has dtype ${JSON.stringify(dtype)}, expected ${TABLE_DTYPES.join(", ")}`,
    );
  }
  const rowBytes = Number.isSafeInteger(dim) && dim >= 1 ? rowBytesOf(dtype, dim) : Number.NaN;
  const { rows } = checkShape([data.byteLength / rowBytes, dim], where);
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return sized({ name, rows, dim, dtype, source: { kind: "memory", bytes } }, where);
}

function checkShape(shape: readonly number[], where: string): { rows: number; dim: number } {
  const [rows = 0, dim = 0] = shape;
  if (shape.length !== 2 || !shape.every((size) => Number.isSafeInteger(size) && size >= 1)) {
    throw new EmbeddingError(
      "invalid_table",
      `${where} has shape [${shape.join(", ")}], expected [rows, dim], both at least 1`,
    );
  }
  return { rows, dim };
}

function sized(table: Omit<UncheckedTable, "rowBytes">, where: string): UncheckedTable {
  const { rows, dim } = table;
  if (rows > MAX_ROWS)
    throw new EmbeddingError("invalid_table", `${where} has ${rows} rows, expected at most ${MAX_ROWS}`);
  if (dim > MAX_DIM) throw new EmbeddingError("invalid_table", `${where} has dim ${dim}, expected at most ${MAX_DIM}`);
  return { ...table, rowBytes: rowBytesOf(table.dtype, dim) };
}

type UncheckedTable = Omit<TableSource, "outOfVocabulary">;

function tableOfEntry(entry: SafetensorsEntry, path: string, quantization: string | undefined): UncheckedTable {
  const where = `${path}: table ${JSON.stringify(entry.name)} at offset ${entry.offset}`;
  const { rows } = checkShape(entry.shape, where);
  const { dtype, dim } = formatOf(entry, where, quantization);
  const source = { kind: "file", path, offset: entry.offset } as const;
  const table = sized({ name: entry.name, rows, dim, dtype, source }, where);
  if (entry.byteLength !== tableBytesOf(table)) {
    throw new EmbeddingError(
      "invalid_table",
      `${where} has rows of ${entry.byteLength / rows} bytes, expected ${table.rowBytes} for dtype ${dtype} and dim ${dim}`,
    );
  }
  return table;
}

function formatOf(
  entry: SafetensorsEntry,
  where: string,
  quantization: string | undefined,
): { dtype: TableDtype; dim: number } {
  const float = Object.hasOwn(FLOAT_DTYPES, entry.dtype) ? FLOAT_DTYPES[entry.dtype] : undefined;
  if (float !== undefined) return { dtype: float, dim: entry.shape[1] ?? 0 };
  if (entry.dtype !== "U8" || quantization === undefined) {
    const quantized = entry.dtype === "U8" ? ` without an "embedding.${entry.name}" entry in the metadata` : "";
    throw new EmbeddingError(
      "invalid_table",
      `${where} has dtype ${entry.dtype}${quantized}, expected F32, F16, BF16, or U8 with quantization metadata`,
    );
  }
  const { dtype, dim } = parseQuantization(quantization);
  if ((dtype !== "int8" && dtype !== "int4") || !Number.isSafeInteger(dim) || (dim as number) < 1) {
    throw new EmbeddingError(
      "invalid_table",
      `${where} has quantization metadata ${JSON.stringify(quantization)}, expected {"dtype": "int8" | "int4", "dim": n}`,
    );
  }
  return { dtype, dim: dim as number };
}

function parseQuantization(text: string): { dtype?: unknown; dim?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

function withPolicies(tables: readonly UncheckedTable[], policies: OutOfVocabularyPolicies): readonly TableSource[] {
  const byTable = "tables" in policies ? policies.tables : undefined;
  for (const name of Object.keys(byTable ?? {})) {
    if (!tables.some((table) => table.name === name)) {
      throw new EmbeddingError(
        "unknown_table",
        `outOfVocabulary names table ${JSON.stringify(name)}, which the source does not have`,
      );
    }
  }
  return tables.map((table) => {
    const own = byTable && Object.hasOwn(byTable, table.name) ? byTable[table.name] : undefined;
    const policy = "tables" in policies ? (own ?? { kind: "error" }) : policies;
    if (!["error", "zero", "default-row", "modulo"].includes(policy.kind)) {
      throw new EmbeddingError(
        "invalid_argument",
        `outOfVocabulary of table ${JSON.stringify(table.name)} is ${JSON.stringify(policy.kind)}, expected error, zero, default-row or modulo`,
      );
    }
    if (
      policy.kind === "default-row" &&
      !(Number.isInteger(policy.row) && policy.row >= 0 && policy.row < table.rows)
    ) {
      throw new EmbeddingError(
        "invalid_argument",
        `default row of table ${JSON.stringify(table.name)} is ${policy.row}, expected 0 … ${table.rows - 1}`,
      );
    }
    return Object.assign({ outOfVocabulary: policy }, table);
  });
}
