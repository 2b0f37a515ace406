import { mkdir, open, rename, stat } from "node:fs/promises";
import path from "node:path";
import { DIM, rowsOfTables, xorshift32 } from "./workload.ts";

const BLOCK_ROWS = 8192;

/** Writes (once) a safetensors file of the tables of `dcnv2-6m`'s shape and gives its path. */
export async function prepareTableFile(dir: string, maxRows: number, dtype: "float32" | "int8"): Promise<string> {
  const file = path.join(dir, `tables-${dtype}-${maxRows}.safetensors`);
  const rows = rowsOfTables(maxRows);
  const rowBytes = dtype === "float32" ? DIM * 4 : DIM + 8;
  const format = dtype === "float32" ? { dtype: "F32", width: DIM } : { dtype: "U8", width: rowBytes };
  const quantization = JSON.stringify({ dtype, dim: DIM });
  const header: Record<string, unknown> =
    dtype === "float32"
      ? {}
      : { __metadata__: Object.fromEntries(rows.map((_, feature) => [`embedding.sparse_${feature}`, quantization])) };
  let end = 0;
  for (const [feature, count] of rows.entries()) {
    const start = end;
    end += count * rowBytes;
    header[`sparse_${feature}`] = { dtype: format.dtype, shape: [count, format.width], data_offsets: [start, end] };
  }
  const json = Buffer.from(JSON.stringify(header));
  const padded = Buffer.alloc(Math.ceil((8 + json.length) / 4096) * 4096, " ");
  padded.writeBigUInt64LE(BigInt(padded.length - 8));
  json.copy(padded, 8);
  const fileBytes = padded.length + end;
  if ((await stat(file).catch(() => undefined))?.size === fileBytes) return file;

  await mkdir(dir, { recursive: true });
  const temporary = `${file}.tmp`;
  const random = xorshift32(1);
  // Whole rows; what they hold does not matter to speed as long as it is finite, which small bytes as floats are too.
  const block = new Uint8Array(BLOCK_ROWS * rowBytes);
  const view = new DataView(block.buffer);
  for (let at = 0; at < block.byteLength; at += 4) view.setFloat32(at, random() / 2 ** 32 - 0.5, true);
  const handle = await open(temporary, "w");
  try {
    await handle.write(padded);
    for (let left = end; left > 0; left -= block.byteLength) {
      await handle.write(block, 0, Math.min(left, block.byteLength));
    }
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  return file;
}
