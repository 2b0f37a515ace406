import { MIN_INTERVAL_VALUES } from "./bootstrap.ts";

/** Orders of two sides' values that are gone through at most: 9 values on both have 48,620. */
const MAX_ORDERS = 50_000;

/**
 * Of pairs of runs that do not differ, the share whose `bootstrapRatio` leaves out 1 all the same. It depends on the order of
 * the values alone, of which each is as likely as the other.
 *
 * @returns null where a side has an even number of values, whose medians are no values, or where there are too many orders.
 */
export function chanceRate(aCount: number, bCount: number, confidence = 0.95): number | null {
  if (Math.min(aCount, bCount) < MIN_INTERVAL_VALUES) return 0;
  if (aCount % 2 === 0 || bCount % 2 === 0 || binomial(aCount + bCount, aCount) > MAX_ORDERS) return null;
  const ofA = medianChances(aCount);
  const ofB = medianChances(bCount);
  const tail = (1 - confidence) / 2 + 1e-9;
  let orders = 0;
  let outside = 0;
  // In ascending order; `less` is the share of the draws so far in which b's median is less than a's.
  const walk = (a: number, b: number, less: number, passedB: number): void => {
    if (a === aCount && b === bCount) {
      orders++;
      if (Math.min(less, 1 - less) <= tail) outside++;
      return;
    }
    if (a < aCount) walk(a + 1, b, less + (ofA[a] ?? 0) * passedB, passedB);
    if (b < bCount) walk(a, b + 1, less, passedB + (ofB[b] ?? 0));
  };
  walk(0, 0, 0, 0);
  return outside / orders;
}

/** For each of an odd number of values in ascending order, how likely it is the median of as many drawn with replacement. */
function medianChances(count: number): number[] {
  const atMost = (place: number): number => {
    const share = place / count;
    let sum = 0;
    for (let below = (count + 1) / 2; below <= count; below++) {
      sum += binomial(count, below) * share ** below * (1 - share) ** (count - below);
    }
    return sum;
  };
  return Array.from({ length: count }, (_, index) => atMost(index + 1) - atMost(index));
}

function binomial(of: number, chosen: number): number {
  let ways = 1;
  for (let at = 1; at <= chosen; at++) ways = (ways * (of - chosen + at)) / at;
  return Math.round(ways);
}
