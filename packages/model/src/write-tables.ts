import { availableParallelism } from "node:os";
import type { HashingFileWriter } from "./hashing-file-writer.ts";
import type { ModelSpec } from "./model-spec.ts";
import { layoutSafetensors, type SafetensorsLayout } from "./safetensors-header.ts";
import { largestChunkBytes, tableChunks, type TableChunk } from "./table-chunks.ts";
import { localFiller, workerFiller, type TableFiller } from "./table-fillers.ts";

/** Tables start at multiples of this, a page, so that they can be mapped and advised one by one. */
const TABLE_ALIGN_BYTES = 4096;

/** Below this a thread takes longer to start than the tables to make. */
const WORKERS_FROM_BYTES = 64 << 20;
/** More threads than this outrun any disk. */
const MAX_WORKERS = 4;

/** The layout of `tables.safetensors`. */
export function tablesLayout(spec: ModelSpec): SafetensorsLayout {
  const tensors = spec.features.map(({ name, vocabularySize }) => ({
    name,
    shape: [vocabularySize, spec.embeddingDim],
  }));
  return layoutSafetensors(tensors, TABLE_ALIGN_BYTES);
}

/**
 * Writes `tables.safetensors`. Threads make the chunks (two buffers for each, so that one is made while the other is
 * written), this thread hashes them in order, and the thread pool writes them: memory is bounded by those buffers.
 */
export async function writeTables(
  spec: ModelSpec,
  seed: number,
  layout: SafetensorsLayout,
  writer: HashingFileWriter,
  signal: AbortSignal | undefined,
): Promise<void> {
  await writer.write(layout.header);
  let end = layout.dataOffset;
  const fillers = makeFillers(spec, layout.fileBytes);
  try {
    for await (const { chunk, bytes } of fillInOrder(tableChunks(spec, seed, layout.tensors), fillers)) {
      signal?.throwIfAborted();
      if (chunk.offset > end) await writer.write(new Uint8Array(chunk.offset - end));
      await writer.write(bytes);
      end = chunk.offset + bytes.byteLength;
    }
  } finally {
    await Promise.all(fillers.map((filler) => filler.close()));
  }
}

function makeFillers(spec: ModelSpec, fileBytes: number): TableFiller[] {
  const bufferBytes = largestChunkBytes(spec);
  if (fileBytes < WORKERS_FROM_BYTES) return [localFiller(Math.min(bufferBytes, fileBytes))];
  const workers = Math.min(MAX_WORKERS, availableParallelism());
  return Array.from({ length: workers + 1 }, () => workerFiller(bufferBytes));
}

/** Yields chunks in order while every filler but the one whose bytes are in use works ahead. */
async function* fillInOrder(
  chunks: Iterator<TableChunk>,
  fillers: readonly TableFiller[],
): AsyncGenerator<{ readonly chunk: TableChunk; readonly bytes: Uint8Array }> {
  const pending: { readonly chunk: TableChunk; readonly filler: TableFiller; readonly bytes: Promise<Uint8Array> }[] =
    [];
  const start = (filler: TableFiller): void => {
    const next = chunks.next();
    if (next.done === true) return;
    const bytes = filler.fill(next.value);
    // Awaited below, in order; a failure of a later chunk must not count as unhandled until then.
    bytes.catch(() => {});
    pending.push({ chunk: next.value, filler, bytes });
  };
  fillers.forEach(start);
  for (let first = pending.shift(); first !== undefined; first = pending.shift()) {
    yield { chunk: first.chunk, bytes: await first.bytes };
    start(first.filler);
  }
}
