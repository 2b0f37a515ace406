/**
 * Counter-based uniform random numbers: element (row, column) of a stream is a function of its position alone, so any part
 * of a tensor can be made by itself, in any order, in any thread. Only 32-bit integer operations and one multiplication go
 * into a value, so that every machine gets the same bytes.
 */
export interface UniformStream {
  readonly keyA: number;
  readonly keyB: number;
}

/** The stream of one tensor of a model with this seed (an integer from 0 to 2³² - 1). */
export function uniformStream(seed: number, tensorName: string): UniformStream {
  const bytes = new TextEncoder().encode(tensorName);
  return { keyA: mix(fnv1a(bytes, 0x811c9dc5 ^ seed)), keyB: mix(fnv1a(bytes, mix(seed ^ 0x9e3779b9))) };
}

export interface UniformFill {
  /** Row of the tensor that `out` starts with. */
  readonly firstRow: number;
  /** Values in a row; `out` holds whole rows. */
  readonly width: number;
  /** Values are uniform in [-bound, bound). */
  readonly bound: number;
  /** Row 2k+1 is the negative of row 2k. */
  readonly opposedRows?: boolean;
}

/** Writes `out.length / width` rows of the stream, starting with `firstRow`. */
export function fillUniform(out: Float32Array, stream: UniformStream, fill: UniformFill): void {
  const { width } = fill;
  const rows = out.length / width;
  const opposed = fill.opposedRows === true;
  const unit = fill.bound / 2 ** 23;
  let at = 0;
  for (let index = 0; index < rows; index++) {
    const row = fill.firstRow + index;
    const key = opposed ? row >>> 1 : row;
    const scale = opposed && (row & 1) === 1 ? -unit : unit;
    // `mix` is one-to-one, so no two rows of a tensor start from the same state.
    let counter = mix(key ^ stream.keyA);
    const rowKey = mix(Math.imul(key, 0x9e3779b1) ^ stream.keyB);
    for (let column = 0; column < width; column++) {
      // `mix` with the second key in its middle, written out: a call here costs a third of the speed.
      let bits = counter;
      counter = (counter + 0x9e3779b9) | 0;
      bits ^= bits >>> 16;
      bits = Math.imul(bits, 0x21f0aaad) ^ rowKey;
      bits ^= bits >>> 15;
      bits = Math.imul(bits, 0x735a2d97);
      bits ^= bits >>> 15;
      // 24 bits are exactly a float32 in [-1, 1); the product is rounded once, on the store.
      out[at++] = (bits >> 8) * scale;
    }
  }
}

/** A bijection of 32-bit integers that spreads every input bit over all output bits. */
function mix(value: number): number {
  let bits = value | 0;
  bits ^= bits >>> 16;
  bits = Math.imul(bits, 0x21f0aaad);
  bits ^= bits >>> 15;
  bits = Math.imul(bits, 0x735a2d97);
  return bits ^ (bits >>> 15);
}

function fnv1a(bytes: Uint8Array, offset: number): number {
  let hash = offset | 0;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash;
}
