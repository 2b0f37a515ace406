/** The sizes that batches are padded to. Without a list every size is allowed. */
export class BatchSizes {
  readonly #sizes: readonly number[] | undefined;

  /** `sizes`: rising whole numbers. */
  constructor(sizes: readonly number[] | undefined) {
    this.#sizes = sizes;
  }

  /** The smallest allowed size that holds `size`. */
  atLeast(size: number): number {
    const sizes = this.#sizes;
    if (sizes === undefined) {
      return size;
    }
    return sizes[this.#indexAtLeast(sizes, size)] ?? size;
  }

  /** The largest allowed size that `size` fills, or 0. */
  atMost(size: number): number {
    const sizes = this.#sizes;
    if (sizes === undefined) {
      return size;
    }
    const i = this.#indexAtLeast(sizes, size);
    return sizes[i] === size ? size : (sizes[i - 1] ?? 0);
  }

  #indexAtLeast(sizes: readonly number[], size: number): number {
    let low = 0;
    let high = sizes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sizes[middle] as number) < size) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
