/** Says of a state whether it is new. Keeps 64 bits of each: two states may be taken for one, once in 2^64 / states². */
export class StateSet {
  /** Two words for each place. */
  #hashes = new Int32Array(1 << 13);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** True if the state was not there. */
  add(states: Int32Array, at: number, words: number): boolean {
    let low = 0x2545f491;
    let high = 0x1b873593;
    for (let i = at; i < at + words; i += 1) {
      const word = states[i] as number;
      low = Math.imul(low ^ word, 0x85ebca6b);
      low ^= low >>> 15;
      high = Math.imul(high ^ word, 0xc2b2ae35);
      high ^= high >>> 13;
    }
    low = Math.imul(low ^ (low >>> 16), 0x27d4eb2f);
    high = Math.imul(high ^ (high >>> 16), 0x165667b1);
    low ^= low >>> 15;
    high ^= high >>> 14;
    // Zero marks what is free.
    if (low === 0 && high === 0) {
      high = 1;
    }
    if (!insert(this.#hashes, low, high)) {
      return false;
    }
    this.#size += 1;
    // Half full.
    if (this.#size * 4 > this.#hashes.length) {
      this.#grow();
    }
    return true;
  }

  #grow(): void {
    const hashes = new Int32Array(this.#hashes.length * 2);
    for (let i = 0; i < this.#hashes.length; i += 2) {
      const low = this.#hashes[i] as number;
      const high = this.#hashes[i + 1] as number;
      if (low !== 0 || high !== 0) {
        insert(hashes, low, high);
      }
    }
    this.#hashes = hashes;
  }
}

function insert(hashes: Int32Array, low: number, high: number): boolean {
  const mask = hashes.length - 1;
  let at = (low << 1) & mask;
  while (hashes[at] !== 0 || hashes[at + 1] !== 0) {
    if (hashes[at] === low && hashes[at + 1] === high) {
      return false;
    }
    at = (at + 2) & mask;
  }
  hashes[at] = low;
  hashes[at + 1] = high;
  return true;
}
