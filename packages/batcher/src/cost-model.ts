/** Two observations of a size are averaged, and so on up to this many; then older ones fade. */
const MEMORY = 16;
/** One observation moves what is believed by no more than this factor, once there are `SETTLED` of its size. */
const MOST_CHANGE = 1.5;
const SETTLED = 3;

interface Bin {
  count: number;
  size: number;
  runMs: number;
}

/**
 * What a batch costs, learnt from those that ran: `fixedMs + perSizeMs * size`.
 *
 * Observations are kept as one running mean for each size (sizes closer than an eighth of an octave share one), so that
 * a thousand batches of one size do not outweigh ten of another, and a size that is rare is not forgotten. An
 * observation far off (a pause of the process) counts as one not so far. The line through the means is the least
 * squares one of relative errors, with neither part below 0. As long as one size only was seen all its cost counts as
 * fixed: that makes larger batches look free, so that they are tried, and measured.
 */
export class CostModel {
  fixedMs = 0;
  perSizeMs = 0;
  readonly #bins = new Map<number, Bin>();

  /** Whether anything was observed. */
  get known(): boolean {
    return this.#bins.size > 0;
  }

  observe(size: number, runMs: number): void {
    const key = Math.round(Math.log2(size) * 8);
    const bin = this.#bins.get(key);
    if (bin === undefined) {
      this.#bins.set(key, { count: 1, size, runMs });
    } else {
      bin.count += 1;
      const weight = 1 / Math.min(bin.count, MEMORY);
      const bounded =
        bin.count > SETTLED ? Math.min(Math.max(runMs, bin.runMs / MOST_CHANGE), bin.runMs * MOST_CHANGE) : runMs;
      bin.size += (size - bin.size) * weight;
      bin.runMs += (bounded - bin.runMs) * weight;
    }
    this.#fit();
  }

  /** Expected run time of a batch padded to `size`, milliseconds: as measured where it was, else by the line. */
  runMs(size: number): number {
    const bin = this.#bins.get(Math.round(Math.log2(size) * 8));
    if (bin !== undefined && bin.count >= SETTLED && bin.size > 0) {
      // Scaled within the bin, where sizes differ a little.
      const line = this.fixedMs + this.perSizeMs * bin.size;
      return line > 0 ? (bin.runMs * (this.fixedMs + this.perSizeMs * size)) / line : bin.runMs;
    }
    return this.fixedMs + this.perSizeMs * size;
  }

  #fit(): void {
    let w = 0;
    let wx = 0;
    let wy = 0;
    let wxx = 0;
    let wxy = 0;
    for (const { count, size, runMs } of this.#bins.values()) {
      const weight = Math.min(count, MEMORY) / Math.max(runMs * runMs, 1e-12);
      w += weight;
      wx += weight * size;
      wy += weight * runMs;
      wxx += weight * size * size;
      wxy += weight * size * runMs;
    }
    const spread = w * wxx - wx * wx;
    if (this.#bins.size < 2 || spread <= 0) {
      this.fixedMs = wy / w;
      this.perSizeMs = 0;
      return;
    }
    const slope = (w * wxy - wx * wy) / spread;
    const intercept = (wy - slope * wx) / w;
    if (slope < 0) {
      this.fixedMs = wy / w;
      this.perSizeMs = 0;
    } else if (intercept < 0) {
      this.fixedMs = 0;
      this.perSizeMs = wxy / wxx;
    } else {
      this.fixedMs = intercept;
      this.perSizeMs = slope;
    }
  }
}
