import { expect, test } from "vitest";
import { examplesOf, largestExamples, meanExamples } from "./request-size.ts";

test("MLPerf's samples have 270 examples on average, 700 at most; a number is itself", () => {
  expect([meanExamples("mlperf"), largestExamples("mlperf")]).toEqual([270, 700]);
  expect([meanExamples(16), largestExamples(16), examplesOf(16, 1)(9)]).toEqual([16, 16, 16]);
});

test("any hundred requests from a multiple of 100 on have each size as often as the published trace", () => {
  const sizeOf = examplesOf("mlperf", 5);
  for (const from of [0, 300]) {
    const counts: Record<number, number> = {};
    for (let i = from; i < from + 100; i++) counts[sizeOf(i)] = (counts[sizeOf(i)] ?? 0) + 1;
    expect(counts).toEqual({ 100: 11, 200: 59, 300: 10, 400: 4, 500: 7, 600: 3, 700: 6 });
  }
});

test("the order is mixed, and the seed's", () => {
  const order = (seed: number): number[] => Array.from({ length: 100 }, (_, i) => examplesOf("mlperf", seed)(i));
  expect(order(1)).toEqual(order(1));
  expect(order(1)).not.toEqual(order(2));
  expect(new Set(order(1).slice(0, 30)).size).toBeGreaterThan(3);
});
