import { expect, test } from "vitest";
import { sharesOnlyCpu } from "./shared-cpu.ts";

test("a device of the CPU computes on the only one, and others elsewhere; with two CPUs requests are read meanwhile", () => {
  expect(sharesOnlyCpu({ platform: "cpu" }, 1)).toBe(true);
  expect(sharesOnlyCpu({ platform: "cpu" }, 2)).toBe(false);
  expect(sharesOnlyCpu({ platform: "sim" }, 1)).toBe(false);
  expect(sharesOnlyCpu({ platform: "cuda" }, 1)).toBe(false);
});
