import { mkdir, open, rename, stat } from "node:fs/promises";
import path from "node:path";
import { DIM, rowsOfTables, xorshift32 } from "./workload.ts";

const BLOCK_FLOATS = 1024 * 1024;

/** Writes (once) a safetensors file of the tables of `dcnv2-6m`'s shape, every row different, and gives its path. */
export async function prepareTableFile(dir: string, maxRows: number): Promise<string> {
  const file = path.join(dir, `tables-${maxRows}.safetensors`);
  const rows = rowsOfTables(maxRows);
  const header: Record<string, unknown> = {};
  let end = 0;
  for (const [feature, count] of rows.entries()) {
    header[`sparse_${feature}`] = { dtype: "F32", shape: [count, DIM], data_offsets: [end, (end += count * DIM * 4)] };
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
  const block = Float32Array.from({ length: BLOCK_FLOATS }, () => random() / 2 ** 32 - 0.5);
  const handle = await open(temporary, "w");
  try {
    await handle.write(padded);
    let left = end;
    for (let at = 0; left > 0; at++) {
      // A different first element a row keeps rows apart without making billions of random numbers.
      for (let i = 0; i < BLOCK_FLOATS; i += DIM) block[i] = (at * BLOCK_FLOATS + i) % 65_536;
      const bytes = Math.min(left, block.byteLength);
      await handle.write(new Uint8Array(block.buffer, 0, bytes));
      left -= bytes;
    }
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
  return file;
}
