import { open, rename, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { EmbeddingError } from "./embedding-error.ts";
import { ErrorMeter, quantizeRows } from "./quantize.ts";
import type { QuantizationError } from "./quantize.ts";
import { describeTables } from "./table-source.ts";
import { rowBytesOf, tableBytesOf } from "./table.ts";
import type { TableDtype, TableSource } from "./table.ts";

export interface QuantizeOptions {
  /** A safetensors file; its float32 tables are converted, others are copied. */
  readonly input: string;
  /** Where the converted file goes. Written beside and moved there once complete. */
  readonly output: string;
  readonly dtype: TableDtype;
  readonly onProgress?: ((doneBytes: number, totalBytes: number) => void) | undefined;
}

/** What became of one table. */
export interface QuantizedTable {
  readonly name: string;
  readonly from: TableDtype;
  readonly to: TableDtype;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  readonly error: QuantizationError;
}

const PIECE_BYTES = 8 * 1024 * 1024;
/** Tables start at multiples of this, so that they can be mapped. */
const ALIGNMENT_BYTES = 4096;
const SAFETENSORS_DTYPES: Readonly<Record<TableDtype, string>> = {
  float32: "F32",
  float16: "F16",
  bfloat16: "BF16",
  int8: "U8",
  int4: "U8",
};

/** Converts the tables of a safetensors file, a few MiB at a time, and reports the error that causes. */
export async function quantizeFile(options: QuantizeOptions): Promise<readonly QuantizedTable[]> {
  const tables = await describeTables({ safetensors: options.input });
  const temporary = `${options.output}.${process.pid}.tmp`;
  const input = await open(options.input);
  try {
    const output = await open(temporary, "wx");
    try {
      const results = await convert(tables, input, output, options);
      await output.sync();
      await rename(temporary, options.output);
      return results;
    } finally {
      await output.close();
      await rm(temporary, { force: true });
    }
  } catch (error) {
    throw EmbeddingError.from(error, "io", `cannot write ${options.output}`);
  } finally {
    await input.close();
  }
}

async function convert(
  tables: readonly TableSource[],
  input: FileHandle,
  output: FileHandle,
  { dtype, onProgress }: QuantizeOptions,
): Promise<readonly QuantizedTable[]> {
  const targets = tables.map((table) => {
    const to = table.dtype === "float32" ? dtype : table.dtype;
    return { table, to, bytes: table.rows * rowBytesOf(to, table.dim) };
  });
  const { header, offsets } = layOut(targets);
  await writeAll(output, header, 0);
  const totalBytes = tables.reduce((sum, table) => sum + tableBytesOf(table), 0);
  let doneBytes = 0;
  const results: QuantizedTable[] = [];
  for (const [at, { table, to, bytes }] of targets.entries()) {
    const meter = new ErrorMeter();
    let position = offsets[at] ?? 0;
    for await (const rows of readRows(table, input)) {
      const converted = to === table.dtype ? rows : quantizeRows(toFloats(rows), table.dim, to, meter);
      await writeAll(output, converted, position);
      position += converted.byteLength;
      doneBytes += rows.byteLength;
      onProgress?.(doneBytes, totalBytes);
    }
    const { name, dtype: from } = table;
    results.push({ name, from, to, bytesBefore: tableBytesOf(table), bytesAfter: bytes, error: meter.error });
  }
  return results;
}

interface Target {
  readonly table: TableSource;
  readonly to: TableDtype;
  readonly bytes: number;
}

/** The header of the new file, and where each table starts in it. */
function layOut(targets: readonly Target[]): { header: Uint8Array; offsets: readonly number[] } {
  const tensors: Record<string, unknown> = {};
  const metadata: Record<string, string> = {};
  const starts: number[] = [];
  let end = 0;
  for (const [at, { table, to, bytes }] of targets.entries()) {
    const gap = Math.ceil(end / ALIGNMENT_BYTES) * ALIGNMENT_BYTES - end;
    if (gap > 0) tensors[`__padding_${at}`] = { dtype: "U8", shape: [gap], data_offsets: [end, end + gap] };
    const isQuantized = to === "int8" || to === "int4";
    const width = isQuantized ? rowBytesOf(to, table.dim) : table.dim;
    const start = end + gap;
    end = start + bytes;
    tensors[table.name] = { dtype: SAFETENSORS_DTYPES[to], shape: [table.rows, width], data_offsets: [start, end] };
    if (isQuantized) metadata[`embedding.${table.name}`] = JSON.stringify({ dtype: to, dim: table.dim });
    starts.push(start);
  }
  const json = new TextEncoder().encode(JSON.stringify({ __metadata__: metadata, ...tensors }));
  const header = new Uint8Array(Math.ceil((8 + json.length) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(header.length - 8), true);
  header.set(json, 8);
  return { header, offsets: starts.map((start) => header.length + start) };
}

/** Whole rows, some MiB at a time. */
async function* readRows(table: TableSource, file: FileHandle): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  if (table.source.kind !== "file") throw new TypeError("tables of a file come from a file");
  const rowsAtATime = Math.max(1, Math.floor(PIECE_BYTES / table.rowBytes));
  for (let row = 0; row < table.rows; row += rowsAtATime) {
    const bytes = new Uint8Array(Math.min(rowsAtATime, table.rows - row) * table.rowBytes);
    const position = table.source.offset + row * table.rowBytes;
    for (let done = 0; done < bytes.byteLength;) {
      const { bytesRead } = await file.read(bytes, done, bytes.byteLength - done, position + done);
      if (bytesRead === 0) {
        throw new EmbeddingError("invalid_file", `${table.source.path}: is truncated at offset ${position + done}`);
      }
      done += bytesRead;
    }
    yield bytes;
  }
}

function toFloats(bytes: Uint8Array<ArrayBuffer>): Float32Array {
  return new Float32Array(bytes.buffer, 0, bytes.byteLength / 4);
}

async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.byteLength;) {
    done += (await file.write(bytes, done, bytes.byteLength - done, position + done)).bytesWritten;
  }
}
