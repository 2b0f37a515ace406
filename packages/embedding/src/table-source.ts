import { open } from "node:fs/promises";
import { EmbeddingError } from "./embedding-error.ts";
import { readSafetensorsHeader } from "./safetensors.ts";
import type { SafetensorsEntry } from "./safetensors.ts";
import { MAX_DIM, MAX_ROWS, rowBytesOf } from "./table.ts";
import type { OutOfVocabularyPolicy, TableDtype, TableSource } from "./table.ts";

/** Where a store's tables come from. */
export type EmbeddingSource = {
  /**
   * Path of a safetensors file. Every tensor whose name does not start with `__padding_` is a table `[rows, dim]` of
   * dtype F32, F16 or BF16. A U8 tensor `[rows, rowBytes]` is a quantized table if the file's `__metadata__` has an entry
   * `embedding.<name>` with the JSON text `{"dtype": "int8" | "int4", "dim": n}`.
   */
  readonly safetensors: string;
};

/** A policy for every table, or one for each table by name (tables left out: `error`). */
export type OutOfVocabularyPolicies =
  | OutOfVocabularyPolicy
  | { readonly tables: Readonly<Record<string, OutOfVocabularyPolicy>> };

const FLOAT_DTYPES: Readonly<Record<string, TableDtype>> = { F32: "float32", F16: "float16", BF16: "bfloat16" };

/** Finds the tables of a source and checks everything that can be checked without reading rows. */
export async function describeTables(
  source: EmbeddingSource,
  policies: OutOfVocabularyPolicies = { kind: "error" },
): Promise<readonly TableSource[]> {
  const path = source.safetensors;
  const file = await open(path).catch((error: unknown) => {
    throw EmbeddingError.from(error, "io", `cannot open ${path}`);
  });
  try {
    const header = await readSafetensorsHeader(file, path);
    const tables = header.entries
      .filter((entry) => !entry.name.startsWith("__padding_"))
      .map((entry) => tableOfEntry(entry, path, header.metadata[`embedding.${entry.name}`]));
    return withPolicies(tables, policies);
  } finally {
    await file.close();
  }
}

type UncheckedTable = Omit<TableSource, "outOfVocabulary">;

function tableOfEntry(entry: SafetensorsEntry, path: string, quantization: string | undefined): UncheckedTable {
  const where = `${path}: table ${JSON.stringify(entry.name)} at offset ${entry.offset}`;
  const [rows = 0, width = 0] = entry.shape;
  if (entry.shape.length !== 2 || rows === 0 || width === 0) {
    throw new EmbeddingError(
      "invalid_table",
      `${where} has shape [${entry.shape.join(", ")}], expected [rows, dim], both at least 1`,
    );
  }
  const { dtype, dim } = formatOf(entry, where, quantization);
  if (rows > MAX_ROWS)
    throw new EmbeddingError("invalid_table", `${where} has ${rows} rows, expected at most ${MAX_ROWS}`);
  if (dim > MAX_DIM) throw new EmbeddingError("invalid_table", `${where} has dim ${dim}, expected at most ${MAX_DIM}`);
  const rowBytes = rowBytesOf(dtype, dim);
  if (entry.byteLength !== rows * rowBytes) {
    throw new EmbeddingError(
      "invalid_table",
      `${where} has rows of ${entry.byteLength / rows} bytes, expected ${rowBytes} for dtype ${dtype} and dim ${dim}`,
    );
  }
  return { name: entry.name, rows, dim, dtype, rowBytes, source: { kind: "file", path, offset: entry.offset } };
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
