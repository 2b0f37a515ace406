import { expect, it } from "vitest";
import { linearScale, logScale, stepScale } from "./scale.ts";

it("a linear scale ends at a round number", () => {
  const scale = linearScale(22_000);
  expect(scale.ticks.map(({ label }) => label)).toEqual(["0", "5k", "10k", "15k", "20k", "25k"]);
  expect([0, 12_500, 25_000].map((value) => scale.position(value))).toEqual([0, 0.5, 1]);
});

it.each([
  [0.9, 60, [0.5, 1, 2, 5, 10, 20, 50, 100]],
  // Over more than three powers only the powers.
  [0.9, 6000, [1, 10, 100, 1000, 10_000]],
  [2, 20, [2, 5, 10, 20]],
  [3, 3, [2, 5]],
  [1, 1, [1, 2]],
  [0.03, 0.2, [0.02, 0.05, 0.1, 0.2]],
])("a logarithmic scale from %d to %d has ticks %j", (min, max, expected) => {
  expect(logScale(min, max).ticks.map(({ value }) => value)).toEqual(expected);
});

it("a logarithmic scale places factors evenly", () => {
  const scale = logScale(1, 100);
  expect(scale.position(1)).toBe(0);
  expect(scale.position(10)).toBeCloseTo(0.5, 12);
  expect(scale.position(100)).toBe(1);
});

it("a step scale places values evenly, and a single one in the middle", () => {
  const scale = stepScale([1, 16, 64], (value) => `C ${value}`);
  expect([1, 16, 64].map((value) => scale.position(value))).toEqual([0, 0.5, 1]);
  expect(scale.ticks[1]).toEqual({ value: 16, label: "C 16" });
  expect(stepScale([4], String).position(4)).toBe(0.5);
});

it("names 1, 2 and 5 over two or three powers, so that the ends have a label", () => {
  expect(logScale(2.4, 340).ticks.map(({ label }) => label)).toEqual(["2", "5", "10", "20", "50", "100", "200", "500"]);
});
