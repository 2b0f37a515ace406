import type { ModelSpec } from "./model-spec.ts";
import type { TensorEntry } from "./safetensors-header.ts";
import { fillUniform, uniformStream, type UniformStream } from "./uniform-stream.ts";

/** A run of rows of one table, the unit of work of an export. */
export interface TableChunk {
  /** Position in the file. */
  readonly offset: number;
  readonly firstRow: number;
  readonly rows: number;
  readonly width: number;
  readonly stream: UniformStream;
  readonly bound: number;
}

/** Large enough that messages between threads do not count, small enough that a few fit in the caches' reach. */
const CHUNK_BYTES = 4 << 20;

/** Cuts the tables into chunks of at most `chunkBytes` (at least a row each), in the order of the file. */
export function* tableChunks(
  spec: ModelSpec,
  seed: number,
  entries: readonly TensorEntry[],
  chunkBytes: number = CHUNK_BYTES,
): Generator<TableChunk> {
  const width = spec.embeddingDim;
  const rowsPerChunk = Math.max(1, Math.floor(chunkBytes / (width * 4)));
  const offsets = new Map(entries.map(({ name, offset }) => [name, offset]));
  for (const { name, vocabularySize, hotSize } of spec.features) {
    const offset = offsets.get(name) as number;
    const stream = uniformStream(seed, name);
    const bound = tableBound(hotSize);
    for (let firstRow = 0; firstRow < vocabularySize; firstRow += rowsPerChunk) {
      const rows = Math.min(rowsPerChunk, vocabularySize - firstRow);
      yield { offset: offset + firstRow * width * 4, firstRow, rows, width, stream, bound };
    }
  }
}

/** Rows are uniform in ±bound, so that a sum of `hotSize` of them has the variance of one in ±0.5. */
function tableBound(hotSize: number): number {
  return 0.5 / Math.sqrt(hotSize);
}

/** Largest chunk in bytes, so the size of a buffer for any of them. */
export function largestChunkBytes(spec: ModelSpec): number {
  return Math.max(CHUNK_BYTES, spec.embeddingDim * 4);
}

/** Writes the chunk's values to the start of `buffer`; returns its bytes. */
export function fillTableChunk<Buffer extends ArrayBufferLike>(chunk: TableChunk, buffer: Buffer): Uint8Array<Buffer> {
  const values = new Float32Array(buffer, 0, chunk.rows * chunk.width);
  fillUniform(values, chunk.stream, chunk);
  return new Uint8Array(buffer, 0, values.byteLength);
}
