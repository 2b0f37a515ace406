/** Two observations of a size are averaged, and so on up to this many; then older ones fade. */
const MEMORY = 16;
/** One observation moves what is believed by no more than this factor, once there are `SETTLED` of its size. */
const MOST_CHANGE = 1.5;
const SETTLED = 3;
/** Sizes cost the same if one costs no more than this times the other for each item. */
const AS_CHEAP = 1.02;
/** Larger batches are known to be dearer if one was measured to cost so much more for each of its items. */
const DEARER = 1.05;

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
  /**
   * Whether size costs more and more, so that the line would begin below 0, or a batch larger than the `cheapestSize` was measured to
   * cost more for each item: no cache holds it any longer, say, or a memory bus is full. The line then cannot tell what size is best.
   */
  isSteep = false;
  /** The smallest size that was measured to cost next to the least for each item; Infinity if none was. */
  cheapestSize: number = Infinity;
  readonly #bins = new Map<number, Bin>();

  /** Whether anything was observed. */
  get known(): boolean {
    return this.#bins.size > 0;
  }

  observe(size: number, runMs: number): void {
    const bin = this.#bins.get(keyOf(size));
    if (bin === undefined) {
      this.#bins.set(keyOf(size), { count: 1, size, runMs });
    } else {
      bin.count += 1;
      const weight = 1 / Math.min(bin.count, MEMORY);
      const bounded =
        bin.count > SETTLED ? Math.min(Math.max(runMs, bin.runMs / MOST_CHANGE), bin.runMs * MOST_CHANGE) : runMs;
      bin.size += (size - bin.size) * weight;
      bin.runMs += (bounded - bin.runMs) * weight;
    }
    this.#fit();
    this.#findCheapest();
  }

  /** Whether batches of about this size were measured often enough. */
  isSettled(size: number): boolean {
    return (this.#bins.get(keyOf(size))?.count ?? 0) >= SETTLED;
  }

  /** Expected run time of a batch padded to `size`, milliseconds: as measured where it was, else by the line. */
  runMs(size: number): number {
    const bin = this.#bins.get(keyOf(size));
    if (bin !== undefined && bin.count >= SETTLED && bin.size > 0) {
      // Scaled within the bin, where sizes differ a little.
      const line = this.fixedMs + this.perSizeMs * bin.size;
      return line > 0 ? (bin.runMs * (this.fixedMs + this.perSizeMs * size)) / line : bin.runMs;
    }
    return this.fixedMs + this.perSizeMs * size;
  }

  #findCheapest(): void {
    let least = Infinity;
    for (const { size, runMs } of this.#bins.values()) {
      // A clock that is too coarse for short runs says that they take no time: that is not known to be cheap.
      if (runMs > 0) {
        least = Math.min(least, runMs / size);
      }
    }
    let cheapest = Infinity;
    let largestDear = 0;
    for (const { count, size, runMs } of this.#bins.values()) {
      if (runMs <= 0) {
        continue;
      }
      if (runMs / size <= least * AS_CHEAP) {
        cheapest = Math.min(cheapest, size);
        // A pause can make a size look dear, and nothing makes one look cheap.
      } else if (count >= SETTLED && runMs / size > least * DEARER && size > largestDear) {
        largestDear = size;
      }
    }
    this.cheapestSize = cheapest;
    this.isSteep ||= largestDear > cheapest;
  }

  #fit(): void {
    this.isSteep = false;
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
    this.isSteep = intercept < 0;
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

/** Of the bin of a size. */
function keyOf(size: number): number {
  return Math.round(Math.log2(size) * 8);
}
