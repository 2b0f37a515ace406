import { median } from "./statistics.ts";

/** Fewer values on a side say too little of their spread: 2 and 2 lie apart by chance in every third pair of equal runs. */
export const MIN_INTERVAL_VALUES = 3;

export interface RatioInterval {
  /** median(b) / median(a). */
  readonly ratio: number;
  /** Bounds of the confidence interval; null with fewer than 3 values on either side. */
  readonly low: number | null;
  readonly high: number | null;
}

export interface BootstrapOptions {
  /** Share of the resampled ratios that lie in the interval, default 0.95. */
  readonly confidence?: number;
  /** Default 2,000. */
  readonly resamples?: number;
  /** The same seed gives the same interval; default 1. */
  readonly seed?: number;
}

/**
 * The ratio of two medians with its percentile bootstrap interval: both samples are drawn anew with replacement, apart
 * from each other. Null if a side has no values, or a median is 0.
 *
 * With 3 values a side there are few different medians, so that the interval is the range of the ratios: `chanceRate` says
 * how often it leaves out 1 for runs that do not differ.
 */
export function bootstrapRatio(
  a: readonly number[],
  b: readonly number[],
  { confidence = 0.95, resamples = 2000, seed = 1 }: BootstrapOptions = {},
): RatioInterval | null {
  const ratio = ratioOfMedians(a, b);
  if (ratio === null) return null;
  if (Math.min(a.length, b.length) < MIN_INTERVAL_VALUES) return { ratio, low: null, high: null };
  const random = mulberry32(seed);
  const draw = (values: readonly number[]): number[] =>
    values.map(() => values[Math.floor(random() * values.length)] as number);
  const ratios: number[] = [];
  for (let resample = 0; resample < resamples; resample++) {
    const drawn = ratioOfMedians(draw(a), draw(b));
    if (drawn !== null) ratios.push(drawn);
  }
  ratios.sort((x, y) => x - y);
  const tail = (1 - confidence) / 2;
  return { ratio, low: quantile(ratios, tail), high: quantile(ratios, 1 - tail) };
}

function ratioOfMedians(a: readonly number[], b: readonly number[]): number | null {
  const from = median(a);
  const to = median(b);
  return from === null || to === null || from === 0 || to === 0 ? null : to / from;
}

function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}

/** Tommy Ettinger's mulberry32: 32 bits of state are plenty for a few thousand draws. */
function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
