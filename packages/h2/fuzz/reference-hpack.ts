import { STATIC_TABLE } from "../src/hpack-static-table.ts";
import { encodeHuffman, huffmanLength } from "../src/huffman.ts";

/** A decoder that is as plain as RFC 7541 reads, and slow: what `HpackDecoder` is compared with. */
export class ReferenceHpackDecoder {
  private table: (readonly [name: string, value: string])[] = [];
  private maxBytes: number;
  private readonly limitBytes: number;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
    this.maxBytes = Math.min(limitBytes, 4096);
  }

  /** Throws on anything malformed. */
  decode(source: Buffer): string[] {
    const fields: string[] = [];
    let at = 0;

    const integer = (prefixBits: number): number => {
      const most = 2 ** prefixBits - 1;
      let value = octet() % (most + 1);
      if (value < most) return value;
      for (let power = 0; ; power++) {
        // As many octets as the decoder takes: more would be over 2^28.
        if (power === 4) throw new Error("too large");
        const next = octet();
        value += (next % 128) * 128 ** power;
        if (next < 128) return value;
      }
    };
    const octet = (): number => {
      const value = source[at++];
      if (value === undefined) throw new Error("cut off");
      return value;
    };
    const text = (): string => {
      if (at >= source.length) throw new Error("cut off");
      const isHuffman = (source[at] as number) >= 128;
      const length = integer(7);
      if (at + length > source.length) throw new Error("cut off");
      const bytes = source.subarray(at, at + length);
      at += length;
      return isHuffman ? fromHuffman(bytes) : bytes.toString("latin1");
    };
    const entry = (index: number): readonly [string, string] => {
      const found = index === 0 ? undefined : (STATIC_TABLE[index] ?? this.table[index - STATIC_TABLE.length]);
      if (found === undefined) throw new Error("no such entry");
      return found;
    };
    const literal = (prefixBits: number): readonly [string, string] => {
      const index = integer(prefixBits);
      const name = index === 0 ? text() : entry(index)[0];
      return [name, text()];
    };

    while (at < source.length) {
      const first = source[at] as number;
      if (first >= 128) {
        fields.push(...entry(integer(7)));
      } else if (first >= 64) {
        const field = literal(6);
        fields.push(...field);
        this.table.unshift(field);
        this.evict();
      } else if (first >= 32) {
        if (fields.length > 0) throw new Error("an update after a field");
        this.maxBytes = integer(5);
        if (this.maxBytes > this.limitBytes) throw new Error("too large a table");
        this.evict();
      } else {
        fields.push(...literal(4));
      }
    }
    return fields;
  }

  private evict(): void {
    const size = (): number => this.table.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0);
    while (size() > this.maxBytes) this.table.pop();
  }
}

/** Symbols by their codes, each with a 1 before its bits; the codes are the encoder's, which has the RFC's examples as tests. */
const symbols = new Map<number, string>();
for (let symbol = 0; symbol < 256; symbol++) {
  const text = String.fromCharCode(symbol);
  // Eight times one code is a whole number of octets, as many as the code has bits: they begin with the code itself.
  const eight = Buffer.alloc(huffmanLength(text.repeat(8)));
  encodeHuffman(text.repeat(8), eight, 0);
  let code = 1;
  for (let bit = 0; bit < eight.length; bit++) code = code * 2 + bitOf(eight, bit);
  symbols.set(code, text);
}

function bitOf(bytes: Buffer, bit: number): number {
  return ((bytes[bit >> 3] as number) >> (7 - (bit & 7))) & 1;
}

function fromHuffman(bytes: Buffer): string {
  let text = "";
  let code = 1;
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    code = code * 2 + bitOf(bytes, bit);
    const symbol = symbols.get(code);
    if (symbol !== undefined) {
      text += symbol;
      code = 1;
    } else if (code > 2 ** 31) {
      throw new Error("no such code");
    }
  }
  // A padding is up to seven ones.
  if (![1, 3, 7, 15, 31, 63, 127, 255].includes(code)) throw new Error("not a padding");
  return text;
}
