import { HpackDynamicTable, ENTRY_OVERHEAD_BYTES } from "./hpack-dynamic-table.ts";
import { DYNAMIC_START, STATIC_TABLE } from "./hpack-static-table.ts";
import { encodeHuffman, huffmanLength } from "./huffman.ts";
import { DEFAULT_HEADER_TABLE_BYTES } from "./protocol.ts";

/** Fields whose value differs from message to message: an entry would only push out those that repeat. */
const neverRepeated = new Set([
  "content-length",
  "date",
  "grpc-message",
  "grpc-status-details-bin",
  "grpc-timeout",
  ":path",
]);
/** Fields that no intermediary may put into a table (section 7.1.3). */
const sensitive = new Set(["authorization", "cookie", "set-cookie", "proxy-authorization"]);

const staticFields = new Map<string, number>();
const staticNames = new Map<string, number>();
for (let index = DYNAMIC_START - 1; index > 0; index--) {
  const [name, value] = STATIC_TABLE[index] as readonly [string, string];
  staticFields.set(`${name}\0${value}`, index);
  staticNames.set(name, index);
}

export type HeaderField = readonly [name: string, value: string];

/** Encodes a block that does not depend on any table: it can be kept, and sent on any connection. */
export function encodeHeaderBlock(fields: Iterable<HeaderField>): Buffer {
  return new HpackEncoder(0).encode(fields);
}

/**
 * Encodes the header blocks of one direction of one connection (RFC 7541). Names are lower case; names and values are one
 * character an octet. With `tableBytes: 0` blocks do not depend on each other, so that one encoded once can be sent often.
 */
export class HpackEncoder {
  private readonly table: HpackDynamicTable;
  private readonly wantedTableBytes: number;
  /** The size that the peer's decoder believes in. */
  private announcedBytes = DEFAULT_HEADER_TABLE_BYTES;
  /** The smallest size since the last block, to be announced before the next one (section 4.2). */
  private smallestUpdate: number | undefined;
  private target: Buffer = Buffer.allocUnsafe(512);
  private at = 0;

  constructor(tableBytes: number = DEFAULT_HEADER_TABLE_BYTES) {
    this.wantedTableBytes = tableBytes;
    this.table = new HpackDynamicTable(Math.min(tableBytes, DEFAULT_HEADER_TABLE_BYTES));
  }

  /** The peer's SETTINGS_HEADER_TABLE_SIZE. */
  limitTable(maxBytes: number): void {
    const size = Math.min(maxBytes, this.wantedTableBytes);
    if (size === this.table.maxBytes && maxBytes >= this.announcedBytes) return;
    this.table.resize(size);
    this.smallestUpdate = Math.min(this.smallestUpdate ?? size, size);
  }

  /** A copy of the encoded block. */
  encode(fields: Iterable<HeaderField>): Buffer {
    this.at = 0;
    if (this.smallestUpdate !== undefined) {
      if (this.smallestUpdate < this.table.maxBytes) this.integer(0x20, 5, this.smallestUpdate);
      this.integer(0x20, 5, this.table.maxBytes);
      this.announcedBytes = this.table.maxBytes;
      this.smallestUpdate = undefined;
    }
    for (const [name, value] of fields) this.field(name, value);
    return Buffer.from(this.target.subarray(0, this.at));
  }

  private field(name: string, value: string): void {
    const exact = staticFields.get(`${name}\0${value}`);
    if (exact !== undefined) return this.integer(0x80, 7, exact);
    const isSensitive = sensitive.has(name);
    const found = isSensitive ? undefined : this.table.find(name, value);
    if (found !== undefined && found >= 0) return this.integer(0x80, 7, DYNAMIC_START + found);
    const nameIndex = staticNames.get(name) ?? (found === undefined ? 0 : DYNAMIC_START + (-1 - found));
    const size = name.length + value.length + ENTRY_OVERHEAD_BYTES;
    const indexed = !isSensitive && !neverRepeated.has(name) && size <= this.table.maxBytes / 2;
    if (indexed) this.integer(0x40, 6, nameIndex);
    else this.integer(isSensitive ? 0x10 : 0x00, 4, nameIndex);
    if (nameIndex === 0) this.string(name);
    this.string(value);
    if (indexed) this.table.add(name, value);
  }

  private integer(first: number, bits: number, value: number): void {
    this.reserve(6);
    const mask = (1 << bits) - 1;
    if (value < mask) {
      this.target[this.at++] = first | value;
      return;
    }
    this.target[this.at++] = first | mask;
    let rest = value - mask;
    while (rest >= 0x80) {
      this.target[this.at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.target[this.at++] = rest;
  }

  private string(text: string): void {
    const short = huffmanLength(text);
    if (short < text.length) {
      this.integer(0x80, 7, short);
      this.reserve(short);
      this.at = encodeHuffman(text, this.target, this.at);
    } else {
      this.integer(0, 7, text.length);
      this.reserve(text.length);
      this.at += this.target.write(text, this.at, "latin1");
    }
  }

  private reserve(bytes: number): void {
    if (this.at + bytes <= this.target.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.target.length * 2, this.at + bytes));
    this.target.copy(larger, 0, 0, this.at);
    this.target = larger;
  }
}
