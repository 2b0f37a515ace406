/** Ids of one example in each of the 26 features of DLRM-DCNv2. */
export const HOT_SIZES: readonly number[] = [
  3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1,
];

const VOCABULARY_SIZES: readonly number[] = [
  40_000_000, 39_060, 17_295, 7424, 20_265, 3, 7122, 1543, 63, 40_000_000, 3_067_956, 405_282, 10, 2209, 11_938, 155, 4,
  976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
];

export const DIM = 128;

/** Rows of each table, none more than `maxRows`. */
export function rowsOfTables(maxRows: number): readonly number[] {
  return VOCABULARY_SIZES.map((size) => Math.min(size, maxRows));
}

/** A generator of uint32 that is the same in every language that has 32-bit arithmetic (xorshift32). */
export function xorshift32(seed: number): () => number {
  // In an array, because numbers beyond 2^31 would be new objects each: garbage of the bench, not of what it measures.
  const state = Uint32Array.of(seed >>> 0 || 1);
  return () => {
    let next = state[0] as number;
    next ^= next << 13;
    next ^= next >>> 17;
    next ^= next << 5;
    state[0] = next;
    return next >>> 0;
  };
}

/** Writes uniform ids for `batch` examples, feature-major. */
export function fillRandomIds(ids: Int32Array, rows: readonly number[], batch: number, random: () => number): void {
  let at = 0;
  for (const [feature, hotSize] of HOT_SIZES.entries()) {
    const count = rows[feature] ?? 1;
    for (let i = 0; i < batch * hotSize; i++) ids[at++] = random() % count;
  }
}
