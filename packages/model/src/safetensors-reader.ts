import { open, type FileHandle } from "node:fs/promises";
import { endianness } from "node:os";
import { ModelError } from "./model-error.ts";
import { headerBytes, parseSafetensorsHeader, type SafetensorsHeader } from "./safetensors-header.ts";

/** A float32 tensor in memory, row-major. */
export interface Tensor {
  readonly dtype: "F32";
  readonly shape: readonly number[];
  readonly data: Float32Array<ArrayBuffer>;
}

/**
 * Reads and checks the header of a safetensors file; no tensor is read.
 * @throws {ModelError} `invalid_safetensors`, naming the file.
 */
export async function readSafetensorsHeader(path: string): Promise<SafetensorsHeader> {
  const file = await open(path, "r");
  try {
    return await readHeader(file, path);
  } finally {
    await file.close();
  }
}

/**
 * Reads float32 tensors of a safetensors file into memory, padding left out.
 * @param names the tensors to read; default all of the file.
 * @throws {ModelError} `invalid_safetensors` if the file is malformed, a name is missing, or a tensor is not F32.
 */
export async function readTensors(path: string, names?: Iterable<string>): Promise<Map<string, Tensor>> {
  assertLittleEndian();
  const file = await open(path, "r");
  try {
    const { tensors } = await readHeader(file, path);
    const entries = new Map(tensors.map((entry) => [entry.name, entry]));
    const result = new Map<string, Tensor>();
    for (const name of names ?? entries.keys()) {
      const entry = entries.get(name);
      if (entry === undefined)
        throw new ModelError("invalid_safetensors", `${path}: no tensor ${JSON.stringify(name)}`);
      if (entry.dtype !== "F32") {
        throw new ModelError(
          "invalid_safetensors",
          `${path}: tensor ${JSON.stringify(name)} is ${entry.dtype}, expected F32`,
        );
      }
      const bytes = await readFully(file, entry.offset, entry.bytes, path);
      result.set(name, { dtype: "F32", shape: entry.shape, data: new Float32Array(bytes.buffer) });
    }
    return result;
  } finally {
    await file.close();
  }
}

async function readHeader(file: FileHandle, path: string): Promise<SafetensorsHeader> {
  const { size } = await file.stat();
  try {
    const prefix = await readFully(file, 0, Math.min(8, size), path);
    return parseSafetensorsHeader(await readFully(file, 0, headerBytes(prefix, size), path), size);
  } catch (cause) {
    if (!(cause instanceof ModelError)) throw cause;
    throw new ModelError(cause.code, `${path}: ${cause.message}`, { cause });
  }
}

/** Largest single read: Node and Linux cap one at 2 GiB. */
const MAX_READ_BYTES = 1 << 30;

/** Exactly `length` bytes from `position`, in their own buffer. */
export async function readFully(
  file: FileHandle,
  position: number,
  length: number,
  path: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(bytes, done, Math.min(length - done, MAX_READ_BYTES), position + done);
    if (bytesRead === 0) {
      throw new ModelError(
        "invalid_safetensors",
        `${path}: ends at byte ${position + done}, expected ${position + length}`,
      );
    }
    done += bytesRead;
  }
  return bytes;
}

/** Files are little-endian and are read as the machine's own floats. */
export function assertLittleEndian(): void {
  if (endianness() !== "LE")
    throw new ModelError("invalid_option", "bundles can be used on little-endian machines only");
}
