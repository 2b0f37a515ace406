import { expect, test } from "vitest";
import { sharesOnlyCpu } from "./shared-cpu.ts";

test("onnxruntime computes on the only CPU, and others elsewhere; with two CPUs requests are read meanwhile", () => {
  expect(sharesOnlyCpu("onnxruntime", 1)).toBe(true);
  expect(sharesOnlyCpu("onnxruntime", 2)).toBe(false);
  expect(sharesOnlyCpu("simulated", 1)).toBe(false);
  expect(sharesOnlyCpu("pjrt", 1)).toBe(false);
});
