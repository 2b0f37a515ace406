import { STATIC_TABLE } from "./hpack-static-table.ts";

/**
 * Encodes a header block that means the same at any time on any connection: fields of the static table by index,
 * everything else as literals without indexing and without Huffman coding. It can be made once and sent with every call.
 */
export function encodeHeaderBlock(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  const parts: Buffer[] = [];
  for (const [name, value] of fields) {
    const whole = STATIC_TABLE.findIndex((entry) => entry[0] === name && entry[1] === value && value !== "");
    if (whole >= 0) {
      parts.push(encodeInteger(whole + 1, 7, 0x80));
      continue;
    }
    const named = STATIC_TABLE.findIndex((entry) => entry[0] === name);
    parts.push(encodeInteger(named + 1, 4, 0x00));
    if (named < 0) parts.push(...encodeString(name));
    parts.push(...encodeString(value));
  }
  return Buffer.concat(parts);
}

/** An integer with a prefix of `prefixBits`, the bits above it being `pattern` (RFC 7541 §5.1). */
export function encodeInteger(value: number, prefixBits: number, pattern: number): Buffer {
  const mask = (1 << prefixBits) - 1;
  if (value < mask) return Buffer.of(pattern | value);
  const bytes = [pattern | mask];
  let rest = value - mask;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

function encodeString(text: string): Buffer[] {
  const bytes = Buffer.from(text, "latin1");
  return [encodeInteger(bytes.length, 7, 0x00), bytes];
}
