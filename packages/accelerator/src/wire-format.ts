/** The protobuf wire format, as far as rewriting an ONNX file needs it: fields that are not understood are kept as they are. */

export interface WireField {
  readonly number: number;
  /** Of a varint; exact up to 2^53. 0 for other types. */
  readonly value: number;
  /** Of a length-delimited field: its content. Empty for other types. */
  readonly content: Uint8Array;
  /** The whole field, tag included. */
  readonly raw: Uint8Array;
}

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;
const MAX_VARINT_BYTES = 10;

/** Reads numbers one after the other. Throws a RangeError where the bytes are none. */
class VarintReader {
  readonly #bytes: Uint8Array;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  read(): number {
    let value = 0;
    for (let shift = 0; shift < MAX_VARINT_BYTES; shift++) {
      const byte = this.#bytes[this.at++];
      if (byte === undefined) throw new RangeError("the file ends within a number");
      value += (byte & 0x7f) * 2 ** (7 * shift);
      if (byte < 0x80) return value;
    }
    throw new RangeError(`a number of more than ${MAX_VARINT_BYTES} bytes at ${this.at}`);
  }
}

/** The fields of a message in their order. Throws a RangeError on bytes that are no message. */
export function readFields(bytes: Uint8Array): WireField[] {
  const fields: WireField[] = [];
  const reader = new VarintReader(bytes);
  while (reader.at < bytes.length) {
    const start = reader.at;
    const tag = reader.read();
    const [number, type] = [Math.floor(tag / 8), tag % 8];
    let value = 0;
    let contentAt = reader.at;
    if (type === VARINT) value = reader.read();
    else if (type === FIXED64) reader.at += 8;
    else if (type === FIXED32) reader.at += 4;
    else if (type === LENGTH_DELIMITED) {
      const length = reader.read();
      contentAt = reader.at;
      reader.at += length;
    } else throw new RangeError(`wire type ${type} at ${start}`);
    const end = reader.at;
    if (end > bytes.length) throw new RangeError(`field ${number} at ${start} is longer than the file`);
    const content = type === LENGTH_DELIMITED ? bytes.subarray(contentAt, end) : bytes.subarray(0, 0);
    fields.push({ number, value, content, raw: bytes.subarray(start, end) });
  }
  return fields;
}

/** The integers of a repeated field, packed or not. */
export function readIntegers(fields: readonly WireField[], number: number): number[] {
  return fields
    .filter((field) => field.number === number)
    .flatMap(({ value, content }) => {
      if (content.length === 0) return [value];
      const reader = new VarintReader(content);
      const values: number[] = [];
      while (reader.at < content.length) values.push(reader.read());
      return values;
    });
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}

export function integerField(number: number, value: number): Uint8Array {
  return Uint8Array.from([...varint(number * 8 + VARINT), ...varint(value)]);
}

/** A field of bytes, or of the message that the pieces make. */
export function bytesField(number: number, pieces: readonly Uint8Array[]): Uint8Array {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return Buffer.concat([Uint8Array.from([...varint(number * 8 + LENGTH_DELIMITED), ...varint(length)]), ...pieces]);
}

export function textField(number: number, value: string): Uint8Array {
  return bytesField(number, [Buffer.from(value)]);
}
