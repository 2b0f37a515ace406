import { describe, expect, it } from "vitest";
import { formatBytes, formatCount, formatNumber, formatPercent, formatRatio, formatSpread } from "./format.ts";

describe("formatNumber", () => {
  it.each([
    [0, "0"],
    [0.0004, "0.000"],
    [0.0123, "0.012"],
    [0.456, "0.456"],
    [1, "1.00"],
    [9.994, "9.99"],
    [9.999, "10.0"],
    [0.9996, "1.00"],
    [12.34, "12.3"],
    [99.96, "100"],
    [999.4, "999"],
    [999.6, "1,000"],
    [12_345.6, "12,346"],
    [1_234_567, "1,234,567"],
  ])("%d is %s", (value, text) => {
    expect(formatNumber(value)).toBe(text);
  });
});

it("formats bytes in binary units", () => {
  expect(formatBytes(2 ** 20)).toBe("1.00 MiB");
  expect(formatBytes(1023 * 2 ** 20)).toBe("1,023 MiB");
  expect(formatBytes(3.2 * 2 ** 30)).toBe("3.20 GiB");
  expect(formatBytes(null)).toBe("–");
});

it("formats shares and ratios", () => {
  expect(formatPercent(0.855)).toBe("86 %");
  expect(formatPercent(null)).toBe("–");
  expect(formatRatio(15.04)).toBe("15.0×");
  expect(formatRatio(null)).toBe("–");
});

it("shows the spread only of several measurements", () => {
  expect(formatSpread(20, { min: 10, max: 30 }, 3)).toBe("20.0 (10.0–30.0)");
  expect(formatSpread(20, { min: 20, max: 20 }, 1)).toBe("20.0");
  expect(formatSpread(null, null, 3)).toBe("–");
});

it("groups the digits of counts", () => {
  expect([0, 6, 999, 1000, 1_234_567].map(formatCount)).toEqual(["0", "6", "999", "1,000", "1,234,567"]);
});
