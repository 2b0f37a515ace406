import { Http2ErrorCode } from "./frame.ts";
import { decodeHuffman } from "./hpack-huffman.ts";
import { STATIC_TABLE } from "./hpack-static-table.ts";
import { Http2Error } from "./http2-error.ts";

/** What an entry costs beside its name and value (RFC 7541 §4.1). */
const ENTRY_OVERHEAD_BYTES = 32;

/** Largest integer accepted: no length or index of ours comes near it. */
const MAX_INTEGER = 0x0fff_ffff;

export type FieldHandler = (name: string, value: string) => void;

/**
 * Decodes header blocks (RFC 7541), with dynamic table and Huffman strings. One per connection; blocks must be decoded
 * in the order received, all of them, or the table is out of step with the peer's.
 *
 * Invariants: `#bytes` is the size of all entries and never above `#limitBytes`, which is never above
 * `maxTableBytes`, what SETTINGS_HEADER_TABLE_SIZE told the peer.
 */
export class HpackDecoder {
  readonly #maxTableBytes: number;
  #limitBytes: number;
  #bytes = 0;
  /** Oldest first; entries before `#oldest` have been evicted. */
  #names: string[] = [];
  #values: string[] = [];
  #oldest = 0;
  /** Where the next integer or string is read; shared so that reading one returns one number only. */
  #at = 0;

  constructor(maxTableBytes: number = 4096) {
    this.#maxTableBytes = maxTableBytes;
    this.#limitBytes = maxTableBytes;
  }

  /** Bytes of the dynamic table, by RFC 7541 §4.1. */
  get tableBytes(): number {
    return this.#bytes;
  }

  /** Entries of the dynamic table, newest first. */
  get table(): readonly (readonly [name: string, value: string])[] {
    const entries: [string, string][] = [];
    for (let i = this.#names.length - 1; i >= this.#oldest; i--) {
      entries.push([this.#names[i] as string, this.#values[i] as string]);
    }
    return entries;
  }

  /**
   * Decodes the whole block `buffer[start, end)`; `onField` gets each field in order.
   * Throws {@link Http2Error} (COMPRESSION_ERROR), after which the connection must be closed.
   */
  decode(buffer: Buffer, start: number, end: number, onField: FieldHandler): void {
    this.#at = start;
    let fieldSeen = false;
    while (this.#at < end) {
      const first = buffer[this.#at] as number;
      if (first >= 0x80) {
        const index = this.#integer(buffer, end, 7);
        onField(this.#name(index), this.#value(index));
      } else if (first >= 0x40) {
        const name = this.#nameOf(buffer, end, 6);
        const value = this.#string(buffer, end);
        this.#insert(name, value);
        onField(name, value);
      } else if (first >= 0x20) {
        if (fieldSeen) fail("a table size update after a header field");
        this.#resize(this.#integer(buffer, end, 5));
        continue;
      } else {
        const name = this.#nameOf(buffer, end, 4);
        onField(name, this.#string(buffer, end));
      }
      fieldSeen = true;
    }
  }

  #nameOf(buffer: Buffer, end: number, prefixBits: number): string {
    const index = this.#integer(buffer, end, prefixBits);
    return index === 0 ? this.#string(buffer, end) : this.#name(index);
  }

  #name(index: number): string {
    if (index > STATIC_TABLE.length) return this.#names[this.#slot(index)] as string;
    const entry = STATIC_TABLE[index - 1];
    return entry === undefined ? fail("index 0") : entry[0];
  }

  #value(index: number): string {
    if (index > STATIC_TABLE.length) return this.#values[this.#slot(index)] as string;
    const entry = STATIC_TABLE[index - 1];
    return entry === undefined ? fail("index 0") : entry[1];
  }

  #slot(index: number): number {
    const slot = this.#names.length - (index - STATIC_TABLE.length);
    if (slot < this.#oldest) fail(`index ${index}, the table has ${this.#names.length - this.#oldest} entries`);
    return slot;
  }

  #insert(name: string, value: string): void {
    const bytes = name.length + value.length + ENTRY_OVERHEAD_BYTES;
    this.#evictTo(this.#limitBytes - bytes);
    // An entry larger than the table empties it and is not kept (RFC 7541 §4.4).
    if (bytes > this.#limitBytes) return;
    this.#names.push(name);
    this.#values.push(value);
    this.#bytes += bytes;
  }

  #resize(limitBytes: number): void {
    if (limitBytes > this.#maxTableBytes) {
      fail(`table size ${limitBytes}, the limit is ${this.#maxTableBytes}`);
    }
    this.#limitBytes = limitBytes;
    this.#evictTo(limitBytes);
  }

  #evictTo(bytes: number): void {
    while (this.#bytes > bytes && this.#oldest < this.#names.length) {
      const name = this.#names[this.#oldest] as string;
      const value = this.#values[this.#oldest] as string;
      this.#bytes -= name.length + value.length + ENTRY_OVERHEAD_BYTES;
      this.#oldest++;
    }
    // Dropped in large steps, so that eviction costs a constant time an entry.
    if (this.#oldest > 64 && this.#oldest * 2 > this.#names.length) {
      this.#names = this.#names.slice(this.#oldest);
      this.#values = this.#values.slice(this.#oldest);
      this.#oldest = 0;
    }
  }

  #integer(buffer: Buffer, end: number, prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = (buffer[this.#at++] as number) & mask;
    if (value < mask) return value;
    for (let shift = 0; ; shift += 7) {
      if (this.#at >= end) fail("an integer is cut off");
      const byte = buffer[this.#at++] as number;
      value += (byte & 0x7f) * 2 ** shift;
      if (value > MAX_INTEGER || shift > 28) fail("an integer is too large");
      if (byte < 0x80) return value;
    }
  }

  #string(buffer: Buffer, end: number): string {
    if (this.#at >= end) fail("a string is missing");
    const huffman = (buffer[this.#at] as number) >= 0x80;
    const length = this.#integer(buffer, end, 7);
    const start = this.#at;
    if (length > end - start) fail("a string is cut off");
    this.#at = start + length;
    return huffman ? decodeHuffman(buffer, start, start + length) : buffer.toString("latin1", start, this.#at);
  }
}

function fail(what: string): never {
  throw new Http2Error(Http2ErrorCode.compressionError, `header block: ${what}`);
}
