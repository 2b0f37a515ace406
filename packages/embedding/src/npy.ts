import type { FileHandle } from "node:fs/promises";
import { EmbeddingError } from "./embedding-error.ts";

/** What the header of a `.npy` file says. */
export interface NpyHeader {
  /** NumPy's name of the element type: `<f4`, `<f2`, `|u1`, … */
  readonly descr: string;
  readonly shape: readonly number[];
  /** Position of the first element, from the start of the file. */
  readonly offset: number;
}

/** Bytes read at once: NumPy's headers are a few dozen bytes, padded to 64. */
const FIRST_BYTES = 4096;

/** Reads and checks the header of a `.npy` file, format versions 1 to 3. */
export async function readNpyHeader(file: FileHandle, path: string): Promise<NpyHeader> {
  const bytes = new Uint8Array(FIRST_BYTES);
  const { bytesRead } = await file.read(bytes, 0, FIRST_BYTES, 0);
  return parseNpyHeader(bytes.subarray(0, bytesRead), path);
}

/** Parses the start of a `.npy` file. */
export function parseNpyHeader(bytes: Uint8Array, path: string): NpyHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = String.fromCharCode(...bytes.subarray(0, 6));
  if (bytes.length < 12 || magic !== "\u0093NUMPY")
    throw broken(path, "is not a .npy file: it does not start with \\x93NUMPY");
  const version = bytes[6] ?? 0;
  if (version < 1 || version > 3) throw broken(path, `has .npy format version ${version}, expected 1, 2 or 3`);
  const headerAt = version === 1 ? 10 : 12;
  const headerBytes = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const offset = headerAt + headerBytes;
  if (offset > bytes.length)
    throw broken(path, `has a header of ${headerBytes} bytes at offset ${headerAt} that is cut off`);
  const header = new TextDecoder("latin1").decode(bytes.subarray(headerAt, offset));
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(header)?.[1];
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(header)?.[1];
  const sizes = /'shape'\s*:\s*\(([\d,\s]*)\)/.exec(header)?.[1];
  if (descr === undefined || order === undefined || sizes === undefined) {
    throw broken(
      path,
      `has the header ${JSON.stringify(header.trim().slice(0, 200))}, expected descr, fortran_order and shape`,
    );
  }
  if (order === "True")
    throw broken(path, "is in Fortran order, expected C order: save numpy.ascontiguousarray(table)");
  const shape = sizes
    .split(",")
    .map((size) => size.trim())
    .filter((size) => size !== "")
    .map(Number);
  if (!shape.every((size) => Number.isSafeInteger(size))) throw broken(path, `has shape (${sizes}), too large`);
  return { descr, shape, offset };
}

function broken(path: string, what: string): EmbeddingError {
  return new EmbeddingError("invalid_file", `${path}: ${what}`);
}
