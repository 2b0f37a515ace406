/** A seeded generator (mulberry32): the same seed makes the same inputs on every machine. */
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed | 0;
  }

  /** 0 to 2^32 - 1. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** 0 to `bound` - 1. */
  below(bound: number): number {
    return this.next() % bound;
  }

  /** True once in `times` times. */
  once(times: number): boolean {
    return this.below(times) === 0;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  /** Mostly small, now and then at an edge of what fits. */
  size(): number {
    return this.once(8)
      ? this.pick([0, 1, 0x7f, 0x80, 0xff, 0x3fff, 0x4000, 0x4001, 0xffff, 0x7fffffff, 0xffffffff])
      : this.below(64);
  }

  bytes(length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length);
    for (let at = 0; at < length; at++) bytes[at] = this.next();
    return bytes;
  }
}
