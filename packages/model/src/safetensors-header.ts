import { ModelError } from "./model-error.ts";

/** A tensor of a safetensors file and where its bytes are. */
export interface TensorEntry {
  readonly name: string;
  /** `F32`, `U8`, … as the file says it. */
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Position of the first byte, from the start of the file. */
  readonly offset: number;
  readonly bytes: number;
}

export interface SafetensorsHeader {
  /** Without the padding, in the order of their bytes. */
  readonly tensors: readonly TensorEntry[];
  /** Position of the first tensor's first byte in the file. */
  readonly dataOffset: number;
  readonly fileBytes: number;
}

/** Names of tensors that only fill the gap before the next aligned one; readers leave them out. */
const PADDING_PREFIX = "__padding_";

/** Largest header the format's own library accepts. */
const MAX_HEADER_BYTES = 100_000_000;

/** The first tensor starts at a multiple of this at least: a cache line. */
const MIN_DATA_ALIGN_BYTES = 64;

/** Bytes of one element. Sub-byte types are left out: nothing here reads them. */
const DTYPE_BYTES: Readonly<Record<string, number>> = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E5M2: 1,
  F8_E4M3: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  F64: 8,
  I64: 8,
  U64: 8,
};

export interface LayoutTensor {
  readonly name: string;
  readonly shape: readonly number[];
}

export interface SafetensorsLayout extends SafetensorsHeader {
  /** The first `dataOffset` bytes of the file. */
  readonly header: Uint8Array;
}

/**
 * Lays out F32 tensors in a new file, in the given order, each at a multiple of `alignBytes` of the file. The format has no
 * holes, so gaps are U8 tensors called `__padding_<i>`, and the header ends in spaces.
 */
export function layoutSafetensors(tensors: readonly LayoutTensor[], alignBytes: number): SafetensorsLayout {
  const entries: Record<string, unknown> = {};
  const placed: {
    readonly name: string;
    readonly shape: readonly number[];
    readonly start: number;
    readonly bytes: number;
  }[] = [];
  let end = 0;
  let paddings = 0;
  for (const { name, shape } of tensors) {
    const start = Math.ceil(end / alignBytes) * alignBytes;
    if (start > end) {
      entries[`${PADDING_PREFIX}${paddings++}`] = { dtype: "U8", shape: [start - end], data_offsets: [end, start] };
    }
    const bytes = elements(shape) * 4;
    end = start + bytes;
    entries[name] = { dtype: "F32", shape, data_offsets: [start, end] };
    placed.push({ name, shape, start, bytes });
  }
  const json = new TextEncoder().encode(JSON.stringify(entries));
  const headerAlignBytes = Math.max(alignBytes, MIN_DATA_ALIGN_BYTES);
  const dataOffset = Math.ceil((8 + json.length) / headerAlignBytes) * headerAlignBytes;
  const header = new Uint8Array(dataOffset).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(dataOffset - 8), true);
  header.set(json, 8);
  return {
    header,
    dataOffset,
    fileBytes: dataOffset + end,
    tensors: placed.map(({ name, shape, start, bytes }) => ({
      name,
      dtype: "F32",
      shape,
      offset: dataOffset + start,
      bytes,
    })),
  };
}

/**
 * Length of the whole header (the 8 bytes that hold its size included).
 * @param prefix the first 8 bytes of the file, or fewer if it has no more.
 * @throws {ModelError} `invalid_safetensors`
 */
export function headerBytes(prefix: Uint8Array, fileBytes: number): number {
  if (prefix.length < 8) throw invalid(`a file has at least 8 bytes, this one has ${prefix.length}`);
  const size = new DataView(prefix.buffer, prefix.byteOffset, prefix.byteLength).getBigUint64(0, true);
  if (size > BigInt(MAX_HEADER_BYTES))
    throw invalid(`the header is to have ${size} bytes, at most ${MAX_HEADER_BYTES} are allowed`);
  if (size < 2n) throw invalid(`the header is to have ${size} bytes, the smallest is "{}"`);
  const end = 8 + Number(size);
  if (end > fileBytes) throw invalid(`the header is to end at byte ${end}, the file has ${fileBytes} bytes`);
  return end;
}

/**
 * Parses the header of a safetensors file. Accepts exactly what the format allows: every tensor's bytes are those of its
 * shape, and together they cover the data without holes or overlaps.
 * @param header the first {@link headerBytes} bytes of the file.
 * @throws {ModelError} `invalid_safetensors`
 */
export function parseSafetensorsHeader(header: Uint8Array, fileBytes: number): SafetensorsHeader {
  const dataOffset = headerBytes(header.subarray(0, 8), fileBytes);
  if (header.length < dataOffset) throw invalid(`the header has ${dataOffset} bytes, got ${header.length} of them`);
  const dataBytes = fileBytes - dataOffset;
  const entries: TensorEntry[] = [];
  for (const [name, value] of Object.entries(parseJson(header.subarray(8, dataOffset)))) {
    if (name !== "__metadata__") entries.push(parseEntry(name, value, dataOffset));
  }
  // Empty tensors first, so that they do not look like overlaps with the one that starts at the same byte.
  entries.sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
  let end = dataOffset;
  for (const { name, offset, bytes } of entries) {
    if (offset !== end) {
      const what = offset > end ? "leaves a hole before it" : "overlaps the one before it";
      throw invalid(
        `tensor ${JSON.stringify(name)} starts at byte ${offset - dataOffset} of the data and ${what}, expected ${end - dataOffset}`,
      );
    }
    end = offset + bytes;
  }
  if (end !== fileBytes) {
    throw invalid(`the tensors have ${end - dataOffset} bytes, the file holds ${dataBytes} after its header`);
  }
  return { tensors: entries.filter(({ name }) => !name.startsWith(PADDING_PREFIX)), dataOffset, fileBytes };
}

function parseJson(bytes: Uint8Array): object {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw new ModelError("invalid_safetensors", `the header is not JSON: ${String(cause)}`, { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid("the header is JSON, but not an object");
  }
  return value;
}

function parseEntry(name: string, value: unknown, dataOffset: number): TensorEntry {
  const at = `tensor ${JSON.stringify(name)}`;
  if (typeof value !== "object" || value === null) throw invalid(`${at}: expected an object`);
  const { dtype, shape, data_offsets: offsets } = value as Record<string, unknown>;
  const elementBytes = typeof dtype === "string" && Object.hasOwn(DTYPE_BYTES, dtype) ? DTYPE_BYTES[dtype] : undefined;
  if (elementBytes === undefined) throw invalid(`${at}: unknown dtype ${JSON.stringify(dtype)}`);
  if (!isSizes(shape)) throw invalid(`${at}: expected a shape of non-negative integers, got ${JSON.stringify(shape)}`);
  if (!isSizes(offsets) || offsets.length !== 2) {
    throw invalid(`${at}: expected data_offsets [begin, end], got ${JSON.stringify(offsets)}`);
  }
  const [begin, end] = offsets as [number, number];
  const bytes = elements(shape) * elementBytes;
  if (end - begin !== bytes) {
    throw invalid(`${at}: data_offsets span ${end - begin} bytes, ${String(dtype)} [${shape.join(", ")}] has ${bytes}`);
  }
  return { name, dtype: dtype as string, shape, offset: dataOffset + begin, bytes };
}

function isSizes(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function elements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

function invalid(message: string): ModelError {
  return new ModelError("invalid_safetensors", message);
}
