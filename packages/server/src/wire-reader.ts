import { ServerError } from "./server-error.ts";

const MAX_GROUP_DEPTH = 32;

/** Wire types of the protobuf encoding. */
export const VARINT = 0;
const FIXED64 = 1;
export const LENGTH_DELIMITED = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const FIXED32 = 5;

/**
 * Reads protobuf fields in place: no objects, no copies. Every read is bounds-checked; malformed input is an
 * `invalid_argument` error that says at which byte. https://protobuf.dev/programming-guides/encoding/
 */
export class WireReader {
  readonly bytes: Uint8Array;
  /** Next byte to read. */
  position: number;
  /** Number of the field whose tag was read last. */
  field = 0;
  /** Wire type of the field whose tag was read last. */
  wireType = 0;

  /** Where the message begins. */
  readonly #start: number;
  readonly #end: number;

  /** Reads the message `bytes[start, end)`. */
  constructor(bytes: Uint8Array, start = 0, end: number = bytes.length) {
    this.bytes = bytes;
    this.#start = start;
    this.#end = end;
    this.position = start;
  }

  /** Reads a tag into `field` and `wireType`; returns the field's number, or 0 at `end`. */
  next(end: number): number {
    if (this.position >= end) return 0;
    const tag = this.varint32(end);
    this.field = tag >>> 3;
    this.wireType = tag & 7;
    if (this.field === 0) throw this.malformed("field number 0");
    return this.field;
  }

  /** An unsigned varint of at most 32 bits: a tag or a length. */
  varint32(end: number): number {
    const { bytes } = this;
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      if (this.position >= end) throw this.malformed("a number that is cut off");
      const byte = bytes[this.position++] as number;
      if (shift === 28 && byte > 15) throw this.malformed("a number over 32 bits");
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
    throw this.malformed("a number over 32 bits");
  }

  /** A signed varint of 64 bits; a bigint only where a number would not be exact. */
  int64(end: number): number | bigint {
    const start = this.position;
    const first = this.bytes[start];
    if (start < end && first !== undefined && first < 0x80) {
      this.position++;
      return first;
    }
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (this.position >= end) throw this.malformed("a number that is cut off");
      const byte = this.bytes[this.position++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        const signed = BigInt.asIntN(64, value);
        const exact = Number(signed);
        return Number.isSafeInteger(exact) ? exact : signed;
      }
    }
    throw this.malformed("a number over 64 bits");
  }

  /** End of the length-delimited field whose tag was read last; `position` is at its first byte. */
  lengthDelimited(end: number): number {
    if (this.wireType !== LENGTH_DELIMITED) {
      throw this.malformed(`field ${this.field} with wire type ${this.wireType}, expected ${LENGTH_DELIMITED}`);
    }
    const length = this.varint32(end);
    if (length > end - this.position) {
      throw this.malformed(`field ${this.field} of ${length} bytes where ${end - this.position} are left`);
    }
    return this.position + length;
  }

  /** Steps over the field whose tag was read last. */
  skip(end: number, depth = 0): void {
    switch (this.wireType) {
      case VARINT:
        this.int64(end);
        return;
      case FIXED64:
        this.#advance(8, end);
        return;
      case FIXED32:
        this.#advance(4, end);
        return;
      case LENGTH_DELIMITED:
        this.position = this.lengthDelimited(end);
        return;
      case START_GROUP: {
        if (depth >= MAX_GROUP_DEPTH) throw this.malformed(`groups nested deeper than ${MAX_GROUP_DEPTH}`);
        const group = this.field;
        for (let field = this.next(end); field !== 0; field = this.next(end)) {
          const wireType: number = this.wireType;
          if (wireType === END_GROUP) {
            if (field !== group) throw this.malformed("a group that ends with another group's tag");
            return;
          }
          this.skip(end, depth + 1);
        }
        throw this.malformed("a group that does not end");
      }
      default:
        throw this.malformed(`field ${this.field} with wire type ${this.wireType}`);
    }
  }

  malformed(what: string): ServerError {
    return new ServerError(
      "invalid_argument",
      `malformed protobuf message of ${this.#end - this.#start} bytes: ${what} at byte ${this.position - this.#start}`,
    );
  }

  #advance(byteCount: number, end: number): void {
    if (end - this.position < byteCount) throw this.malformed("a number that is cut off");
    this.position += byteCount;
  }
}
