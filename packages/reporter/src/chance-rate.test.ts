import { expect, it } from "vitest";
import { bootstrapRatio } from "./bootstrap.ts";
import { chanceRate } from "./chance-rate.ts";
import { isDifferent } from "./compare-runs.ts";

it.each([
  [2, 2, 0.95, 0],
  [2, 9, 0.95, 0],
  [3, 3, 0.95, 2 / 20],
  [3, 5, 0.95, 4 / 56],
  [5, 5, 0.95, 8 / 252],
  [7, 7, 0.95, 142 / 3432],
  [3, 3, 0.8, 4 / 20],
  [3, 4, 0.95, null],
  [11, 11, 0.95, null],
])("of %d and %d values at a confidence of %d: %d", (a, b, confidence, expected) => {
  expect(chanceRate(a, b, confidence)).toBe(expected);
});

/** Every choice of `count` of the numbers from 1 to `max`. */
function choices(max: number, count: number): number[][] {
  if (count === 0) return [[]];
  if (max < count) return [];
  return [...choices(max - 1, count), ...choices(max - 1, count - 1).map((chosen) => chosen.concat(max))];
}

it.each([
  [3, 3],
  [3, 5],
])("is what bootstrapRatio does with every order of %d and %d values", (aCount, bCount) => {
  const orders = choices(aCount + bCount, aCount);
  const found = orders.filter((a) => {
    const b = Array.from({ length: aCount + bCount }, (_, index) => index + 1).filter((value) => !a.includes(value));
    return isDifferent(bootstrapRatio(a, b));
  });
  expect(found.length / orders.length).toBe(chanceRate(aCount, bCount));
});
