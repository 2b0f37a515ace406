import type { BatchSizes } from "./batch-sizes.ts";
import type { CostModel } from "./cost-model.ts";

/** One batch in so many is a trial: what it leaves behind, or takes too long for, is not among the slowest hundredth. */
const BATCHES_A_TRIAL = 128;
/** Where another size may well be cheaper, and soon all is known, more often: */
const BATCHES_A_HOPEFUL_TRIAL = 8;
/** so many of each size. Items may be too large to fill it. */
const HOPEFUL_TRIALS = 3;
/**
 * Twice the size is tried so many times more rarely for each time that its items cost the usual one's beyond once: what that takes is then a
 * five-hundredth of all, however dear it is, and what waits behind it still not among the slowest hundredth.
 */
const RARER_WHERE_DEAR = 8;

/**
 * Once in a while a batch of about half or twice the usual size, to learn what that costs: under a steady load all batches have the
 * size that was believed to be best when it began.
 *
 * Half, as long as that was not measured; twice, if so much waits, again and again: what was too dear once may not stay so.
 */
export class SizeTrials {
  readonly #cost: CostModel;
  readonly #sizes: BatchSizes;
  readonly #maxBatchSize: number;
  /** How often each size was tried. */
  readonly #trials: Map<number, number> = new Map<number, number>();
  #batches = 0;

  constructor(cost: CostModel, sizes: BatchSizes, maxBatchSize: number) {
    this.#cost = cost;
    this.#sizes = sizes;
    this.#maxBatchSize = maxBatchSize;
  }

  /** How much of what waits to send, where `usual` would be; `itemSize` is that of an item. */
  sizeOf(usual: number, waiting: number, itemSize: number): number {
    this.#batches += 1;
    const isTurn = this.#batches % BATCHES_A_TRIAL === 0;
    if (!isTurn && !(this.#cost.isSteep && this.#batches % BATCHES_A_HOPEFUL_TRIAL === 0)) {
      return usual;
    }
    // Of all sizes only powers of two, so that they are few.
    const power = 2 ** Math.floor(Math.log2(usual));
    const half = this.#sizes.atMost(power / 2);
    if (half >= itemSize && this.#mayTry(half)) {
      return half;
    }
    const double = Math.min(this.#maxBatchSize, Math.max(usual, this.#sizes.atLeast(power * 2)));
    return waiting >= double && ((isTurn && this.#isWorthATurn(double, usual)) || this.#mayTry(double))
      ? double
      : usual;
  }

  /** Whether to look again, at this turn, what `double` costs. */
  #isWorthATurn(double: number, usual: number): boolean {
    if (!this.#cost.isSettled(double)) {
      return true;
    }
    const dearness = this.#cost.runMs(double) / double / (this.#cost.runMs(usual) / usual);
    const turn = this.#batches / BATCHES_A_TRIAL;
    // A coarse clock may have measured the usual size as no time.
    const isDearer = dearness > 1 && dearness < Infinity;
    return !isDearer || turn % Math.ceil(RARER_WHERE_DEAR * (dearness - 1)) === 0;
  }

  /** Whether little is known of this size; counts as a trial. */
  #mayTry(size: number): boolean {
    const trials = this.#trials.get(size) ?? 0;
    if (trials >= HOPEFUL_TRIALS || this.#cost.isSettled(size)) {
      return false;
    }
    this.#trials.set(size, trials + 1);
    return true;
  }
}
