/** A stream of 32-bit numbers from a seed (splitmix32): the same on every machine. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** 0 to 2^32 - 1. */
  uint32(): number {
    this.#state = (this.#state + 0x9e3779b9) | 0;
    let mixed = this.#state ^ (this.#state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }

  /** 0 to `limit - 1`. */
  below(limit: number): number {
    return Math.floor((this.uint32() / 2 ** 32) * limit);
  }

  /** -1 to 1. */
  signed(): number {
    return this.uint32() / 2 ** 31 - 1;
  }
}
