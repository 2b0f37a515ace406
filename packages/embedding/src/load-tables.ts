import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { EmbeddingError } from "./embedding-error.ts";
import { tableBytesOf } from "./table.ts";
import type { TableSource } from "./table.ts";

export interface LoadOptions {
  /** Reads in flight at a time. */
  readonly concurrency: number;
  readonly onProgress?: ((loadedBytes: number, totalBytes: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Where bytes of a table, from `firstByte` on, go. */
export interface LoadTarget {
  readonly table: TableSource;
  readonly firstByte: number;
  readonly bytes: Uint8Array;
}

interface Piece {
  readonly target: LoadTarget;
  readonly start: number;
  readonly end: number;
}

/** Large enough that the cost of a call does not count, small enough that threads end together. */
const PIECE_BYTES = 8 * 1024 * 1024;

/** Reads rows straight into their place, several reads at a time, each at its own position. */
export async function loadTables(targets: readonly LoadTarget[], options: LoadOptions): Promise<void> {
  const totalBytes = targets.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
  let loadedBytes = 0;
  const files = new Map<string, FileHandle>();
  try {
    const pieces = targets.flatMap(piecesOf);
    for (const { target } of pieces) {
      const { source } = target.table;
      if (source.kind === "file" && !files.has(source.path)) files.set(source.path, await open(source.path));
    }
    let next = 0;
    const work = async () => {
      for (let piece = pieces[next++]; piece !== undefined; piece = pieces[next++]) {
        if (options.signal?.aborted === true) throw abortError(options.signal);
        await readPiece(piece, files);
        loadedBytes += piece.end - piece.start;
        options.onProgress?.(loadedBytes, totalBytes);
      }
    };
    const workers = Array.from({ length: Math.max(1, options.concurrency) }, async () => {
      try {
        await work();
      } catch (error) {
        // The others stop after the piece they are at.
        next = pieces.length;
        throw error;
      }
    });
    // All must have ended before files are closed and memory is given up.
    const outcomes = await Promise.allSettled(workers);
    for (const outcome of outcomes) {
      if (outcome.status === "rejected") throw EmbeddingError.from(outcome.reason, "io", "cannot read tables");
    }
  } catch (error) {
    throw EmbeddingError.from(error, "io", "cannot read tables");
  } finally {
    await Promise.all(Array.from(files.values(), (file) => file.close()));
  }
}

/** What a load that was called off is rejected with. */
export function abortError(signal: AbortSignal): EmbeddingError {
  return new EmbeddingError("aborted", "loading tables was aborted", { cause: signal.reason });
}

function piecesOf(target: LoadTarget): Piece[] {
  const totalBytes = target.bytes.byteLength;
  return Array.from({ length: Math.ceil(totalBytes / PIECE_BYTES) }, (_, at) => ({
    target,
    start: at * PIECE_BYTES,
    end: Math.min((at + 1) * PIECE_BYTES, totalBytes),
  }));
}

async function readPiece({ target, start, end }: Piece, files: ReadonlyMap<string, FileHandle>): Promise<void> {
  const { table, firstByte, bytes } = target;
  if (table.source.kind === "memory") {
    bytes.set(table.source.bytes.subarray(firstByte + start, firstByte + end), start);
    return;
  }
  const { path } = table.source;
  const offset = table.source.offset + firstByte;
  let at = start;
  while (at < end) {
    const { bytesRead } = await (files.get(path) as FileHandle).read(bytes, at, end - at, offset + at);
    if (bytesRead === 0) {
      throw new EmbeddingError(
        "invalid_file",
        `${path}: is truncated: table ${JSON.stringify(table.name)} ended at offset ${offset + at} while reading, expected ${table.source.offset + tableBytesOf(table)}`,
      );
    }
    at += bytesRead;
  }
}
