import { HeaderBlock } from "./header-block.ts";
import { ENTRY_OVERHEAD_BYTES, HpackDynamicTable } from "./hpack-dynamic-table.ts";
import { DYNAMIC_START, STATIC_TABLE } from "./hpack-static-table.ts";
import { Http2Error } from "./http2-error.ts";
import { decodeHuffman } from "./huffman.ts";
import { DEFAULT_HEADER_TABLE_BYTES, ErrorCode } from "./protocol.ts";

/** Blocks kept decoded; a client's calls differ in few ways, and each costs a comparison. */
const KEPT_BLOCKS = 4;
/** A longer block is decoded each time. */
const LARGEST_KEPT_BLOCK_BYTES = 1024;

interface KeptBlock {
  readonly bytes: Buffer;
  readonly block: HeaderBlock;
  /** Version of the dynamic table that the bytes were read against. */
  readonly version: number;
}

export interface HpackDecoderOptions {
  /** Bound of the dynamic table that we announced (SETTINGS_HEADER_TABLE_SIZE), bytes. Defaults to 4,096. */
  readonly maxTableBytes?: number;
  /** What the table may take before the encoder says otherwise, bytes. Defaults to 4,096, or the bound if that is less. */
  readonly initialTableBytes?: number;
  /** Bound of a decoded list as RFC 9113, section 6.5.2 counts it: octets and 32 more a field. Defaults to 16,384. */
  readonly maxHeaderListBytes?: number;
}

function compressionError(message: string): Http2Error {
  return new Http2Error("connection", ErrorCode.COMPRESSION_ERROR, message);
}

/**
 * Decodes the header blocks of one direction of one connection (RFC 7541). Throws an `Http2Error` with
 * COMPRESSION_ERROR on anything malformed: the connection cannot go on, since the dynamic tables may differ.
 */
export class HpackDecoder {
  private maxTableBytes: number;
  /** The bound has become smaller than the table: the next block must start by saying so (section 4.2). */
  private mustResize = false;
  private readonly maxHeaderListBytes: number;
  private readonly table: HpackDynamicTable;
  private readonly kept: KeptBlock[] = [];
  private nextKept = 0;
  private source: Buffer = Buffer.alloc(0);
  private at = 0;
  private end = 0;

  constructor(options: HpackDecoderOptions = {}) {
    this.maxTableBytes = options.maxTableBytes ?? DEFAULT_HEADER_TABLE_BYTES;
    this.maxHeaderListBytes = options.maxHeaderListBytes ?? 16_384;
    this.table = new HpackDynamicTable(
      Math.min(this.maxTableBytes, options.initialTableBytes ?? DEFAULT_HEADER_TABLE_BYTES),
    );
  }

  /** The encoder has acknowledged this bound of the table, bytes. */
  limitTable(maxTableBytes: number): void {
    this.maxTableBytes = maxTableBytes;
    this.mustResize = this.table.maxBytes > maxTableBytes;
  }

  /** Bytes that the dynamic table takes now, as RFC 7541 counts them. */
  get tableBytes(): number {
    return this.table.sizeBytes;
  }

  /**
   * Decodes the block `source[start, end)`. Returns undefined if the list is larger than `maxHeaderListBytes`: the table is
   * kept in step all the same, so that only the stream of the block is lost.
   */
  decode(source: Buffer, start: number, end: number): HeaderBlock | undefined {
    const length = end - start;
    if (this.mustResize) this.expectResize(source, start, end);
    for (const kept of this.kept) {
      if (kept.version !== this.table.version || kept.bytes.length !== length) continue;
      if (kept.bytes.compare(source, start, end) === 0) return kept.block;
    }
    const before = this.table.version;
    const flat = this.decodeFields(source, start, end);
    if (flat === undefined) return undefined;
    const block = new HeaderBlock(flat);
    // A block that changed the table means something else when it comes again.
    if (this.table.version === before && length <= LARGEST_KEPT_BLOCK_BYTES) {
      this.kept[this.nextKept] = { bytes: Buffer.from(source.subarray(start, end)), block, version: before };
      this.nextKept = (this.nextKept + 1) % KEPT_BLOCKS;
    }
    return block;
  }

  private decodeFields(source: Buffer, start: number, end: number): string[] | undefined {
    this.source = source;
    this.at = start;
    this.end = end;
    const flat: string[] = [];
    let listBytes = 0;
    while (this.at < end) {
      const octet = source[this.at] as number;
      let name: string;
      let value: string;
      if ((octet & 0x80) !== 0) {
        const index = this.integer(7);
        name = this.nameOf(index);
        value = this.valueOf(index);
      } else if ((octet & 0x40) !== 0) {
        const index = this.integer(6);
        name = index === 0 ? this.string() : this.nameOf(index);
        value = this.string();
        this.table.add(name, value);
      } else if ((octet & 0x20) !== 0) {
        // Section 4.2: only before the first field of a block.
        if (flat.length > 0 || listBytes > 0) throw compressionError("a table size update after a field");
        this.resize(this.integer(5));
        continue;
      } else {
        const index = this.integer(4);
        name = index === 0 ? this.string() : this.nameOf(index);
        value = this.string();
      }
      listBytes += name.length + value.length + ENTRY_OVERHEAD_BYTES;
      if (listBytes <= this.maxHeaderListBytes) flat.push(name, value);
    }
    return listBytes <= this.maxHeaderListBytes ? flat : undefined;
  }

  private expectResize(source: Buffer, start: number, end: number): void {
    if (start < end && ((source[start] as number) & 0xe0) === 0x20) return;
    throw compressionError(
      `the table is larger than its new limit of ${this.maxTableBytes} bytes, and the block does not start with an update`,
    );
  }

  private resize(maxBytes: number): void {
    if (maxBytes > this.maxTableBytes) {
      throw compressionError(`a table of ${maxBytes} bytes was asked for, the limit is ${this.maxTableBytes}`);
    }
    this.table.resize(maxBytes);
    this.mustResize = false;
  }

  private nameOf(index: number): string {
    if (index > 0 && index < DYNAMIC_START) return (STATIC_TABLE[index] as readonly [string, string])[0];
    return this.table.nameAt(this.dynamicIndex(index));
  }

  private valueOf(index: number): string {
    if (index > 0 && index < DYNAMIC_START) return (STATIC_TABLE[index] as readonly [string, string])[1];
    return this.table.valueAt(this.dynamicIndex(index));
  }

  private dynamicIndex(index: number): number {
    const dynamic = index - DYNAMIC_START;
    if (dynamic < 0 || dynamic >= this.table.length) {
      throw compressionError(
        `index ${index} is outside of the tables (${DYNAMIC_START - 1 + this.table.length} entries)`,
      );
    }
    return dynamic;
  }

  /** An integer with a prefix of `bits` bits (section 5.1), at most 2^28. */
  private integer(bits: number): number {
    const mask = (1 << bits) - 1;
    let value = (this.source[this.at++] as number) & mask;
    if (value < mask) return value;
    let shift = 0;
    for (;;) {
      if (this.at >= this.end) throw compressionError("a block ends inside an integer");
      const octet = this.source[this.at++] as number;
      if (shift > 21) throw compressionError("an integer is larger than 2^28");
      value += (octet & 0x7f) << shift;
      shift += 7;
      if ((octet & 0x80) === 0) return value;
    }
  }

  private string(): string {
    if (this.at >= this.end) throw compressionError("a block ends before a string");
    const huffman = ((this.source[this.at] as number) & 0x80) !== 0;
    const length = this.integer(7);
    const start = this.at;
    if (length > this.end - start) throw compressionError("a block ends inside a string");
    this.at = start + length;
    if (!huffman) return this.source.toString("latin1", start, this.at);
    const text = decodeHuffman(this.source, start, this.at);
    if (text === undefined) throw compressionError("a string is not valid Huffman code");
    return text;
  }
}
