import type { FileHandle } from "node:fs/promises";
import { EmbeddingError } from "./embedding-error.ts";

/** One tensor of a safetensors file. */
export interface SafetensorsEntry {
  readonly name: string;
  /** As written in the file: `F32`, `F16`, `BF16`, `U8`, … */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Position of the first byte, from the start of the file. */
  readonly offset: number;
  readonly byteLength: number;
}

export interface SafetensorsHeader {
  readonly entries: readonly SafetensorsEntry[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Same limit as the reference implementation of the format. */
const MAX_HEADER_BYTES = 100_000_000;

const DTYPE_BITS: Readonly<Record<string, number>> = {
  BOOL: 8,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  U16: 16,
  I16: 16,
  F16: 16,
  BF16: 16,
  U32: 32,
  I32: 32,
  F32: 32,
  U64: 64,
  I64: 64,
  F64: 64,
};

/**
 * Reads and checks the header of a safetensors file: 8 bytes of little-endian header length, a JSON object, then the data of all
 * tensors without holes up to the end of the file.
 */
export async function readSafetensorsHeader(file: FileHandle, path: string): Promise<SafetensorsHeader> {
  const fileBytes = (await file.stat()).size;
  if (fileBytes < 8) throw broken(path, `is ${fileBytes} bytes long, too short for a safetensors header`);
  const prefix = await readExactly(file, path, 8, 0);
  const headerBytes = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  if (headerBytes > MAX_HEADER_BYTES) {
    throw broken(path, `announces a header of ${headerBytes} bytes at offset 0, more than ${MAX_HEADER_BYTES}`);
  }
  if (8 + headerBytes > fileBytes) {
    throw broken(path, `is truncated: header ends at offset ${8 + headerBytes}, file at ${fileBytes}`);
  }
  const json = await readExactly(file, path, headerBytes, 8);
  return parseSafetensorsHeader(json, fileBytes, path);
}

/** Parses the JSON part of a header; `fileBytes` is the size of the whole file. */
export function parseSafetensorsHeader(json: Uint8Array, fileBytes: number, path: string): SafetensorsHeader {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(json));
  } catch (error) {
    throw new EmbeddingError("invalid_file", `${path} has a header at offset 8 that is not JSON`, { cause: error });
  }
  if (!isRecord(parsed)) throw broken(path, "has a header at offset 8 that is not a JSON object");
  const dataStart = 8 + json.byteLength;
  const entries: SafetensorsEntry[] = [];
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(parsed)) {
    if (name === "__metadata__") {
      if (!isRecord(value)) throw broken(path, "has a __metadata__ that is not a JSON object");
      for (const [key, text] of Object.entries(value)) {
        if (typeof text !== "string")
          throw broken(path, `has __metadata__ ${JSON.stringify(key)} that is not a string`);
        metadata[key] = text;
      }
      continue;
    }
    entries.push(parseEntry(path, name, value, dataStart));
  }
  entries.sort((a, b) => a.offset - b.offset || a.byteLength - b.byteLength);
  let end = dataStart;
  for (const entry of entries) {
    if (entry.offset !== end) {
      const what = entry.offset > end ? "leaves a hole" : "overlaps the tensor before it";
      throw broken(
        path,
        `tensor ${JSON.stringify(entry.name)} ${what}: starts at offset ${entry.offset}, expected ${end}`,
      );
    }
    end += entry.byteLength;
  }
  if (end > fileBytes) {
    const cut = entries.find((entry) => entry.offset + entry.byteLength > fileBytes);
    throw broken(
      path,
      `is truncated: tensor ${JSON.stringify(cut?.name)} ends at offset ${cut && cut.offset + cut.byteLength}, file at ${fileBytes}`,
    );
  }
  if (end < fileBytes) throw broken(path, `has ${fileBytes - end} bytes after its last tensor, at offset ${end}`);
  return { entries, metadata };
}

function parseEntry(path: string, name: string, value: unknown, dataStart: number): SafetensorsEntry {
  const tensor = `tensor ${JSON.stringify(name)}`;
  if (!isRecord(value)) throw broken(path, `${tensor} is not a JSON object`);
  const { dtype, shape, data_offsets: offsets } = value;
  if (!isSizes(offsets) || offsets.length !== 2) {
    throw broken(path, `${tensor} has data_offsets ${JSON.stringify(offsets)}, expected [begin, end]`);
  }
  const [begin = 0, end = 0] = offsets;
  const where = `${tensor} at offset ${dataStart + begin}`;
  if (typeof dtype !== "string") throw broken(path, `${where} has no dtype`);
  const bits = Object.hasOwn(DTYPE_BITS, dtype) ? DTYPE_BITS[dtype] : undefined;
  if (bits === undefined) throw broken(path, `${where} has an unknown dtype ${JSON.stringify(dtype)}`);
  if (!isSizes(shape)) throw broken(path, `${where} has shape ${JSON.stringify(shape)}, expected a list of sizes`);
  const expected = shape.reduce((product, size) => product * size, bits / 8);
  if (end < begin || end - begin !== expected) {
    throw broken(
      path,
      `${where} of dtype ${dtype} and shape [${shape.join(", ")}] needs ${expected} bytes, data_offsets give ${end - begin}`,
    );
  }
  return { name, dtype, shape, offset: dataStart + begin, byteLength: end - begin };
}

async function readExactly(file: FileHandle, path: string, length: number, position: number) {
  const bytes = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, length - done, position + done);
    if (bytesRead === 0) throw broken(path, `is truncated: ended at offset ${position + done} while reading`);
    done += bytesRead;
  }
  return bytes;
}

function broken(path: string, what: string): EmbeddingError {
  return new EmbeddingError("invalid_file", `${path}: ${what}`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}
