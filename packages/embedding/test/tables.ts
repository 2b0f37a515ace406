import { writeFile } from "node:fs/promises";
import { rowBytesOf } from "../src/table.ts";
import type { OutOfVocabularyPolicy, TableDtype, TableSource } from "../src/table.ts";

/** A tensor for `writeSafetensors`. */
export interface TestTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** Bytes of a safetensors file, by the format's specification. */
export function safetensorsBytes(
  tensors: Readonly<Record<string, TestTensor>>,
  metadata?: Readonly<Record<string, string>>,
): Uint8Array {
  const header: Record<string, unknown> = metadata ? { __metadata__: metadata } : {};
  let end = 0;
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes.byteLength] };
    end += bytes.byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + json.byteLength + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(json.byteLength), true);
  file.set(json, 8);
  let at = 8 + json.byteLength;
  for (const { bytes } of Object.values(tensors)) {
    file.set(bytes, at);
    at += bytes.byteLength;
  }
  return file;
}

/** Writes a safetensors file. */
export async function writeSafetensors(
  path: string,
  tensors: Readonly<Record<string, TestTensor>>,
  metadata?: Readonly<Record<string, string>>,
): Promise<void> {
  await writeFile(path, safetensorsBytes(tensors, metadata));
}

/** A float32 tensor `[rows, dim]`. */
export function float32Tensor(rows: number, dim: number, values: ArrayLike<number>): TestTensor {
  return { dtype: "F32", shape: [rows, dim], bytes: new Uint8Array(Float32Array.from(values).buffer) };
}

/** A seeded generator of uint32 (mulberry32). */
export function randomUint32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

/** A table of random rows in memory; every value is finite. */
export function randomTable(
  name: string,
  rows: number,
  dim: number,
  dtype: TableDtype,
  outOfVocabulary: OutOfVocabularyPolicy,
  random: () => number,
): TableSource & { source: { kind: "memory"; bytes: Uint8Array<SharedArrayBuffer> } } {
  const rowBytes = rowBytesOf(dtype, dim);
  const bytes = new Uint8Array(new SharedArrayBuffer(rows * rowBytes));
  const view = new DataView(bytes.buffer);
  const float = () => (random() / 2 ** 32 - 0.5) * 2;
  // Sign, an exponent from 2^-14 (or subnormal) to 2^3, any fraction.
  const float16Bits = () => (random() & 0x8000) | ((random() % 19) << 10) | (random() & 0x3ff);
  for (let row = 0; row < rows; row++) {
    const at = row * rowBytes;
    for (let i = 0; i < rowBytes; i++) view.setUint8(at + i, random());
    if (dtype === "float32") for (let d = 0; d < dim; d++) view.setFloat32(at + d * 4, float(), true);
    if (dtype === "float16") for (let d = 0; d < dim; d++) view.setUint16(at + d * 2, float16Bits(), true);
    if (dtype === "bfloat16") {
      for (let d = 0; d < dim; d++)
        view.setUint16(at + d * 2, (random() & 0x80ff) | (0x3e00 + (random() & 0x180)), true);
    }
    if (dtype === "int8") {
      view.setFloat32(at + dim, float(), true);
      view.setFloat32(at + dim + 4, float(), true);
    }
    if (dtype === "int4") {
      view.setUint16(at + rowBytes - 4, float16Bits(), true);
      view.setUint16(at + rowBytes - 2, float16Bits(), true);
    }
  }
  return { name, rows, dim, dtype, rowBytes, outOfVocabulary, source: { kind: "memory", bytes } };
}

/** Bytes of a `.npy` file with this header, by NumPy's description of the format. */
export function npyBytes(dict: string, data: Uint8Array, version = 1): Uint8Array {
  const headerAt = version === 1 ? 10 : 12;
  const end = Math.ceil((headerAt + dict.length + 1) / 64) * 64;
  const file = new Uint8Array(end + data.byteLength);
  file.set([0x93, ...new TextEncoder().encode("NUMPY"), version, 0]);
  const view = new DataView(file.buffer);
  if (version === 1) view.setUint16(8, end - headerAt, true);
  else view.setUint32(8, end - headerAt, true);
  file.set(new TextEncoder().encode(`${dict.padEnd(end - headerAt - 1)}\n`), headerAt);
  file.set(data, end);
  return file;
}
