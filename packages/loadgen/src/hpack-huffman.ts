import { Http2ErrorCode } from "./frame.ts";
import { Http2Error } from "./http2-error.ts";

/**
 * Bits of the code of each byte (RFC 7541 Appendix B). The code is canonical: codes of one length follow each other in
 * the order of their symbols, so the lengths say everything.
 */
// oxfmt-ignore
const CODE_BITS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const EOS = 256;
const EOS_BITS = 30;

/** A state's 16 transitions, one for each next 4 bits; a code has at least 5 bits, so 4 bits end at most one symbol. */
interface Automaton {
  /** [state * 16 + nibble]: the next state, or -1 for the end-of-string code, which may not be sent. */
  readonly next: Int16Array;
  /** [state * 16 + nibble]: the byte that ends in these 4 bits, or -1. */
  readonly symbol: Int16Array;
  /** [state]: 1 where a string may end: fewer than 8 bits since the last symbol, all of them ones. */
  readonly accepting: Uint8Array;
}

/** Canonical codes as a binary tree: children of node n are tree[2n] and tree[2n + 1]; leaves are -1 - symbol; 0 is none. */
function buildTree(): number[] {
  const symbols = CODE_BITS.map((bits, symbol) => ({ bits, symbol }));
  symbols.push({ bits: EOS_BITS, symbol: EOS });
  symbols.sort((a, b) => a.bits - b.bits || a.symbol - b.symbol);
  const tree = [0, 0];
  let code = 0;
  let previousBits = 0;
  for (const { bits, symbol } of symbols) {
    code = previousBits === 0 ? 0 : (code + 1) * 2 ** (bits - previousBits);
    previousBits = bits;
    let node = 0;
    for (let bit = bits - 1; bit > 0; bit--) {
      const at = node * 2 + (Math.floor(code / 2 ** bit) & 1);
      if (tree[at] === 0) {
        tree[at] = tree.length / 2;
        tree.push(0, 0);
      }
      node = tree[at] as number;
    }
    tree[node * 2 + (code & 1)] = -1 - symbol;
  }
  return tree;
}

function buildAutomaton(): Automaton {
  const tree = buildTree();
  const states = tree.length / 2;
  const next = new Int16Array(states * 16);
  const symbol = new Int16Array(states * 16).fill(-1);
  for (let state = 0; state < states; state++) {
    for (let nibble = 0; nibble < 16; nibble++) {
      let node = state;
      for (let bit = 3; bit >= 0 && node >= 0; bit--) {
        const child = tree[node * 2 + ((nibble >> bit) & 1)] as number;
        if (child >= 0) {
          node = child;
        } else if (child === -1 - EOS) {
          node = -1;
        } else {
          symbol[state * 16 + nibble] = -1 - child;
          node = 0;
        }
      }
      next[state * 16 + nibble] = node;
    }
  }
  const accepting = new Uint8Array(states);
  let node = 0;
  for (let ones = 0; ones < 8; ones++) {
    accepting[node] = 1;
    node = tree[node * 2 + 1] as number;
  }
  return { next, symbol, accepting };
}

const AUTOMATON: Automaton = buildAutomaton();

let scratch: Buffer = Buffer.allocUnsafeSlow(1024);

/**
 * Decodes the Huffman-coded string `buffer[start, end)` to one character a byte (latin1).
 * Throws {@link Http2Error} (COMPRESSION_ERROR) on an end-of-string code or wrong padding.
 */
export function decodeHuffman(buffer: Buffer, start: number, end: number): string {
  const most = Math.ceil(((end - start) * 8) / 5);
  if (most > scratch.length) scratch = Buffer.allocUnsafeSlow(most * 2);
  const { next, symbol, accepting } = AUTOMATON;
  const output = scratch;
  let length = 0;
  let state = 0;
  for (let at = start; at < end; at++) {
    const byte = buffer[at] as number;
    for (let nibble = byte >> 4, half = 0; half < 2; nibble = byte & 15, half++) {
      const transition = state * 16 + nibble;
      const decoded = symbol[transition] as number;
      if (decoded >= 0) output[length++] = decoded;
      state = next[transition] as number;
      if (state < 0) throw new Http2Error(Http2ErrorCode.compressionError, "end-of-string code in a Huffman string");
    }
  }
  if (accepting[state] !== 1) {
    throw new Http2Error(Http2ErrorCode.compressionError, "a Huffman string ends in wrong padding");
  }
  return output.toString("latin1", 0, length);
}
