import * as fc from "fast-check";
import { expect, it } from "vitest";
import { bootstrapRatio } from "./bootstrap.ts";

it("has an interval of one value where repeats agree", () => {
  expect(bootstrapRatio([100, 100, 100], [250, 250, 250])).toEqual({ ratio: 2.5, low: 2.5, high: 2.5 });
});

it.each([
  [[100], [50, 60, 70], 0.6],
  [[100, 100, 100], [50, 60], 0.55],
])("has no interval with fewer than three values on a side: %j and %j", (a, b, ratio) => {
  expect(bootstrapRatio(a, b)).toEqual({ ratio, low: null, high: null });
});

it.each([
  [[], [1]],
  [[1], []],
  [
    [0, 0],
    [1, 1],
  ],
  [[1], [0]],
])("has no ratio of %j and %j", (a, b) => {
  expect(bootstrapRatio(a, b)).toBeNull();
});

it("spans what three repeats can give, with the same seed the same", () => {
  const a = [90, 100, 110];
  const b = [180, 200, 220];
  const interval = bootstrapRatio(a, b, { seed: 7 });
  expect(interval).toEqual(bootstrapRatio(a, b, { seed: 7 }));
  // A median is the smallest of three with a probability of 7/27: both extremes at once in 6.7 % of the draws.
  expect(interval).toEqual({ ratio: 2, low: 180 / 110, high: 220 / 90 });
});

it("is narrow where there are many repeats, and wider for more confidence", () => {
  const a = Array.from({ length: 101 }, (_, index) => 95 + index / 10);
  const b = a.map((value) => value * 2);
  const usual = bootstrapRatio(a, b);
  const sure = bootstrapRatio(a, b, { confidence: 0.999 });
  expect(usual?.low).toBeGreaterThan(1.9);
  expect(usual?.high).toBeLessThan(2.1);
  expect(sure?.low).toBeLessThan(usual?.low as number);
  expect(sure?.high).toBeGreaterThan(usual?.high as number);
});

it("holds the ratio of the medians, within the range of the values' ratios", () => {
  const values = fc.array(fc.double({ min: 1, max: 1e6, noNaN: true }), { minLength: 3, maxLength: 7 });
  fc.assert(
    fc.property(values, values, fc.nat(), (a, b, seed) => {
      const interval = bootstrapRatio(a, b, { seed, resamples: 200, confidence: 1 });
      const { ratio, low, high } = interval as { ratio: number; low: number; high: number };
      expect(low).toBeLessThanOrEqual(high);
      expect(ratio).toBeGreaterThan(0);
      expect(low).toBeGreaterThanOrEqual((Math.min(...b) / Math.max(...a)) * (1 - 1e-12));
      expect(high).toBeLessThanOrEqual((Math.max(...b) / Math.min(...a)) * (1 + 1e-12));
    }),
  );
});
