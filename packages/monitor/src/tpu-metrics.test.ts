import { expect, test } from "vitest";
import { parseTpuLine } from "./tpu-metrics.ts";

test("values are a list a metric, one a chip", () => {
  expect(parseTpuLine('{"duty_cycle_pct": ["12.5", "0.00"], "hbm_capacity_usage": ["1073741824", "0"]}')).toEqual([
    { chip: 0, dutyCyclePercent: 12.5, memoryBytes: 2 ** 30 },
    { chip: 1, dutyCyclePercent: 0, memoryBytes: 0 },
  ]);
});

test("what is not told is left out, and what is no reading gives none", () => {
  expect(parseTpuLine('{"duty_cycle_pct": [], "hbm_capacity_usage": ["5"]}')).toEqual([{ chip: 0, memoryBytes: 5 }]);
  expect(parseTpuLine("Traceback (most recent call last):")).toEqual([]);
});
