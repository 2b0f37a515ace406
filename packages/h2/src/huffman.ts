/**
 * The Huffman code of HPACK (RFC 7541, appendix B). It is canonical: codes of one length are consecutive in the order of
 * their symbols, and shorter codes come first, so that the lengths alone define it.
 */
const EOS = 256;

// prettier-ignore
const codeLengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28,
  28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13,
  6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6,
  6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23,
  23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
  23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23,
  22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21,
  22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const codes = new Uint32Array(257);
{
  const order = codeLengths.map((_, symbol) => symbol).sort((a, b) => lengthOf(a) - lengthOf(b) || a - b);
  let code = 0;
  let length = lengthOf(order[0] ?? 0);
  for (const symbol of order) {
    code <<= lengthOf(symbol) - length;
    length = lengthOf(symbol);
    codes[symbol] = code;
    code += 1;
  }
}

function lengthOf(symbol: number): number {
  return codeLengths[symbol] ?? 0;
}

/*
 * The decoder walks the code tree four bits at a time. A state is an inner node of the tree; an entry of `steps` is
 * (next state << 10) | (symbol << 1) | has symbol, or FAIL. The shortest code has five bits, so that four bits end at most
 * one symbol.
 */
const FAIL = -1;
const steps = new Int32Array(256 * 16);
/** 1 where the bits since the last symbol are a proper padding: fewer than eight, and all ones (section 5.2). */
const mayEnd = new Uint8Array(256);
{
  interface Node {
    id: number;
    children: (Node | number | undefined)[];
  }
  const nodes: Node[] = [];
  const addNode = (): Node => {
    const node = { id: nodes.length, children: [undefined, undefined] };
    nodes.push(node);
    return node;
  };
  const rootNode = addNode();
  for (let symbol = 0; symbol <= EOS; symbol++) {
    const code = codes[symbol] ?? 0;
    let node = rootNode;
    for (let bit = lengthOf(symbol) - 1; bit > 0; bit--) {
      const side = (code >>> bit) & 1;
      let next = node.children[side];
      if (typeof next !== "object") {
        next = addNode();
        node.children[side] = next;
      }
      node = next;
    }
    node.children[code & 1] = symbol;
  }
  for (const node of nodes) {
    for (let nibble = 0; nibble < 16; nibble++) {
      let at: Node = node;
      let emitted = -1;
      let failed = false;
      for (let bit = 3; bit >= 0 && !failed; bit--) {
        const next = at.children[(nibble >>> bit) & 1];
        if (typeof next === "object") {
          at = next;
        } else if (next === undefined || next === EOS) {
          failed = true;
        } else {
          emitted = next;
          at = rootNode;
        }
      }
      steps[node.id * 16 + nibble] = failed ? FAIL : (at.id << 10) | (emitted < 0 ? 0 : (emitted << 1) | 1);
    }
  }
  let padding: Node | number | undefined = rootNode;
  for (let bits = 0; bits < 8 && typeof padding === "object"; bits++) {
    mayEnd[padding.id] = 1;
    padding = padding.children[1];
  }
}

const scratch: number[] = [];

/**
 * Decodes `source[start, end)` to a string of one character an octet. Undefined if it is not a Huffman code: EOS inside, or
 * padding that is longer than seven bits or not all ones (section 5.2).
 */
export function decodeHuffman(source: Uint8Array, start: number, end: number): string | undefined {
  let state = 0;
  scratch.length = 0;
  for (let at = start; at < end; at++) {
    const octet = source[at] as number;
    const high = steps[state * 16 + (octet >>> 4)] as number;
    if (high === FAIL) return undefined;
    if ((high & 1) !== 0) scratch.push((high >>> 1) & 0xff);
    state = high >>> 10;
    const low = steps[state * 16 + (octet & 15)] as number;
    if (low === FAIL) return undefined;
    if ((low & 1) !== 0) scratch.push((low >>> 1) & 0xff);
    state = low >>> 10;
  }
  if (mayEnd[state] === 0) return undefined;
  return charactersOf(scratch);
}

function charactersOf(octets: readonly number[]): string {
  // Spreading more than some 100,000 arguments overflows the stack.
  if (octets.length <= 4096) return String.fromCharCode(...octets);
  return Buffer.from(octets).toString("latin1");
}

/** Octets that `text` (one character an octet) takes in Huffman code. */
export function huffmanLength(text: string): number {
  let bits = 0;
  for (let at = 0; at < text.length; at++) bits += codeLengths[text.charCodeAt(at) & 0xff] as number;
  return (bits + 7) >>> 3;
}

/** Writes `text` (one character an octet) in Huffman code to `target` at `offset`; returns the offset after it. */
export function encodeHuffman(text: string, target: Uint8Array, offset: number): number {
  let at = offset;
  let pending = 0;
  let pendingBits = 0;
  for (let index = 0; index < text.length; index++) {
    const symbol = text.charCodeAt(index) & 0xff;
    let left = codeLengths[symbol] as number;
    const code = codes[symbol] as number;
    // A code has up to 30 bits: it is taken in pieces, so that `pending` stays within 32.
    while (left > 0) {
      const take = Math.min(left, 24 - pendingBits);
      left -= take;
      pending = (pending << take) | ((code >>> left) & ((1 << take) - 1));
      pendingBits += take;
      while (pendingBits >= 8) {
        pendingBits -= 8;
        target[at++] = (pending >>> pendingBits) & 0xff;
      }
      pending &= (1 << pendingBits) - 1;
    }
  }
  if (pendingBits > 0) target[at++] = ((pending << (8 - pendingBits)) | ((1 << (8 - pendingBits)) - 1)) & 0xff;
  return at;
}
