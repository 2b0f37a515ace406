import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { EmbeddingError } from "./embedding-error.ts";
import { abortError } from "./load-tables.ts";
import type { EmbeddingSource } from "./table-source.ts";

/** SHA-256 (hexadecimal) that a safetensors file must have, or those of `.npy` files by table name. */
export type ExpectedSha256 = string | Readonly<Record<string, string>>;

/** Reads the files of a source and refuses one that hashes to anything else than it must. */
export async function verifySha256(
  source: EmbeddingSource,
  expected: ExpectedSha256,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const [path, sha256, table] of filesOf(source, expected)) {
    const actual = await hashOf(path, signal);
    if (actual !== sha256.toLowerCase()) {
      const of = table === undefined ? "" : `table ${JSON.stringify(table)} `;
      throw new EmbeddingError("invalid_file", `${path}: ${of}has SHA-256 ${actual}, expected ${sha256.toLowerCase()}`);
    }
  }
}

function filesOf(
  source: EmbeddingSource,
  expected: ExpectedSha256,
): readonly (readonly [path: string, sha256: string, table: string | undefined])[] {
  if ("safetensors" in source && typeof expected === "string") return [[source.safetensors, expected, undefined]];
  if ("npy" in source && typeof expected === "object") {
    return Object.entries(expected).map(([table, sha256]) => {
      const path = Object.hasOwn(source.npy, table) ? source.npy[table] : undefined;
      if (path === undefined) {
        throw new EmbeddingError(
          "unknown_table",
          `sha256 names table ${JSON.stringify(table)}, which the source does not have`,
        );
      }
      return [path, sha256, table] as const;
    });
  }
  throw new EmbeddingError(
    "invalid_argument",
    "sha256 does not fit the source, expected one text for a safetensors file, or texts by table for .npy files",
  );
}

async function hashOf(path: string, signal: AbortSignal | undefined): Promise<string> {
  const hash = createHash("sha256");
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
      if (signal?.aborted === true) throw abortError(signal);
      hash.update(chunk as Uint8Array);
    }
  } catch (error) {
    throw EmbeddingError.from(error, "io", `cannot read ${path}`);
  }
  return hash.digest("hex");
}
