/**
 * Looks up and sums the rows of one feature's bags:
 *
 * ```text
 * for b in 0 … batch - 1:  out[b, :] = table[ids[b, 0]] + … + table[ids[b, hotSize - 1]]
 * ```
 *
 * Four rows a pass over the output: V8 does not vectorize the loop, so that fewer loads and stores of the output are what
 * there is to gain (some 40 % on the 214 rows of an example of DLRM-DCNv2).
 *
 * @param table rows of `width` numbers.
 * @param ids [batch, hotSize] row-major, from `idsAt` on; all of them rows of the table.
 * @param out its first row begins at `outAt`, the next ones `outStride` numbers apart.
 */
export function gatherFeature(
  table: Float32Array,
  width: number,
  ids: Int32Array,
  idsAt: number,
  batch: number,
  hotSize: number,
  out: Float32Array,
  outAt: number,
  outStride: number,
): void {
  for (let b = 0; b < batch; b++) {
    const first = idsAt + b * hotSize;
    const end = first + hotSize;
    const o = outAt + b * outStride;
    let id = first;
    const r0 = (ids[id] as number) * width;
    if (hotSize < 4) {
      for (let j = 0; j < width; j++) out[o + j] = table[r0 + j] as number;
      id++;
    } else {
      const r1 = (ids[id + 1] as number) * width;
      const r2 = (ids[id + 2] as number) * width;
      const r3 = (ids[id + 3] as number) * width;
      for (let j = 0; j < width; j++) {
        out[o + j] =
          (table[r0 + j] as number) + (table[r1 + j] as number) + (table[r2 + j] as number) + (table[r3 + j] as number);
      }
      id += 4;
    }
    for (; id + 4 <= end; id += 4) {
      const s0 = (ids[id] as number) * width;
      const s1 = (ids[id + 1] as number) * width;
      const s2 = (ids[id + 2] as number) * width;
      const s3 = (ids[id + 3] as number) * width;
      for (let j = 0; j < width; j++) {
        (out[o + j] as number) +=
          (table[s0 + j] as number) + (table[s1 + j] as number) + (table[s2 + j] as number) + (table[s3 + j] as number);
      }
    }
    for (; id < end; id++) {
      const row = (ids[id] as number) * width;
      for (let j = 0; j < width; j++) (out[o + j] as number) += table[row + j] as number;
    }
  }
}
