import type { Random } from "./random.ts";

/** How ids are drawn from a table's rows: all alike, or the k-th most frequent with a probability of k^-exponent. */
export type IdDistribution = "uniform" | { readonly zipf: number };

/** Draws one id, 0 to rows - 1. */
export type IdSampler = (random: Random) => number;

/** Up to here rank * factor + offset stays below 2^53, exact in a number. */
const MAX_EXACT_ROWS = 94_000_000;

/**
 * Makes the sampler of one table of `rows` rows. Under Zipf the frequent ids lie scattered over the table, by a
 * permutation that depends on `scatter` (the table's number), because real ids are hashed: rows next to each other
 * would make it easier on caches and pages than it is.
 */
export function idSampler(distribution: IdDistribution, rows: number, scatter: number): IdSampler {
  if (distribution === "uniform") return (random) => random.below(rows);
  const rank = zipfRank(rows, distribution.zipf);
  const { factor, offset } = permutation(rows, scatter);
  if (rows <= MAX_EXACT_ROWS) return (random) => ((rank(random) - 1) * factor + offset) % rows;
  return (random) => Number((BigInt(rank(random) - 1) * BigInt(factor) + BigInt(offset)) % BigInt(rows));
}

/**
 * Ranks 1 to n by Zipf's law, without a table, by rejection-inversion (Hörmann and Derflinger 1996).
 * `exponent` > 0; 1 is allowed.
 */
export function zipfRank(n: number, exponent: number): (random: Random) => number {
  // The integral of x^-exponent and its inverse, in a form that holds near an exponent of 1 too.
  const integral = (x: number): number => {
    const log = Math.log(x);
    return expm1Over((1 - exponent) * log) * log;
  };
  const inverse = (x: number): number => {
    const t = Math.max(-1, x * (1 - exponent));
    return Math.exp(log1pOver(t) * x);
  };
  const density = (x: number): number => Math.exp(-exponent * Math.log(x));
  const low = integral(1.5) - 1;
  const high = integral(n + 0.5);
  const shortcut = 2 - inverse(integral(2.5) - density(2));
  return (random) => {
    for (;;) {
      const u = high + random.unit() * (low - high);
      const x = inverse(u);
      const k = Math.min(n, Math.max(1, Math.round(x)));
      if (k - x <= shortcut || u >= integral(k + 0.5) - density(k)) return k;
    }
  };
}

/** (e^x - 1) / x */
function expm1Over(x: number): number {
  return Math.abs(x) > 1e-8 ? Math.expm1(x) / x : 1 + x / 2;
}

/** log(1 + x) / x */
function log1pOver(x: number): number {
  return Math.abs(x) > 1e-8 ? Math.log1p(x) / x : 1 - x / 2;
}

/** x → (x * factor + offset) mod rows, one to one because factor and rows have no divisor in common. */
function permutation(rows: number, scatter: number): { factor: number; offset: number } {
  let factor = (Math.floor(rows * 0.618_033_988_75) + scatter) % rows;
  while (commonDivisor(factor, rows) !== 1) factor++;
  return { factor, offset: (scatter * 7919) % rows };
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}
