/** Mixes an integer to 32 well-spread bits (the finalizer of MurmurHash3). */
function mix(value: number): number {
  let bits = value | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/**
 * Seeded random numbers, the same on every machine (xoshiro128**, Blackman and Vigna 2018). Generators of one seed and
 * different `stream` numbers are independent, so that each request, table or schedule has its own.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /** `seed` is an integer from 0 to 2^53 - 1, `stream` one from 0 to 2^32 - 1. */
  constructor(seed: number, stream: number) {
    const low = mix(seed % 2 ** 32);
    const high = mix(Math.floor(seed / 2 ** 32) ^ 0x9e37_79b9);
    this.#a = mix(low ^ 0x243f_6a88);
    this.#b = mix(high ^ 0x85a3_08d3);
    this.#c = mix(stream ^ 0x1319_8a2e) ^ low;
    // The state may not be all zero.
    this.#d = mix(mix(stream + 0x0370_7344) ^ high) | 1;
    for (let i = 0; i < 8; i++) this.uint32();
  }

  /** An integer from 0 to 2^32 - 1. */
  uint32(): number {
    const product = Math.imul(this.#b, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9);
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result >>> 0;
  }

  /** A number in [0, 1), a multiple of 2^-53. */
  unit(): number {
    return ((this.uint32() >>> 5) * 2 ** 26 + (this.uint32() >>> 6)) * 2 ** -53;
  }

  /** An integer from 0 to `limit` - 1, for limits up to 2^53. */
  below(limit: number): number {
    return Math.floor(this.unit() * limit);
  }
}
