import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { EmbeddingError } from "./embedding-error.ts";
import { abortError } from "./load-tables.ts";
import type { EmbeddingSource } from "./table-source.ts";

/** Reads a safetensors file and refuses it if it hashes to anything else than it must. */
export async function verifySha256(
  source: EmbeddingSource,
  expected: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!("safetensors" in source)) {
    throw new EmbeddingError("invalid_argument", "sha256 is given, but the source is not a safetensors file");
  }
  const path = source.safetensors;
  const hash = createHash("sha256");
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
      if (signal?.aborted === true) throw abortError(signal);
      hash.update(chunk as Uint8Array);
    }
  } catch (error) {
    throw EmbeddingError.from(error, "io", `cannot read ${path}`);
  }
  const actual = hash.digest("hex");
  if (actual !== expected.toLowerCase()) {
    throw new EmbeddingError("invalid_file", `${path}: has SHA-256 ${actual}, expected ${expected.toLowerCase()}`);
  }
}
