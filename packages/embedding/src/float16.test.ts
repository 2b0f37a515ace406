import { expect, test } from "vitest";
import { float16ToNumber, numberToFloat16, roundToEven } from "./float16.ts";

test("every float16 survives the way there and back", () => {
  const broken = Array.from({ length: 0x10000 }, (_, bits) => bits).filter((bits) => {
    const value = float16ToNumber(bits);
    return Number.isNaN(value) ? numberToFloat16(value) !== 0x7e00 : numberToFloat16(value) !== bits;
  });
  expect(broken).toEqual([]);
});

test.each([
  [1, 0x3c00],
  [65_504, 0x7bff],
  [65_519.99, 0x7bff],
  [65_520, 0x7c00],
  [-1e9, 0xfc00],
  [2 ** -24, 1],
  [2 ** -25, 0],
  [2 ** -25 * 1.01, 1],
  [2 ** -14 - 2 ** -26, 0x400],
  // Halfway between two neighbours: the even one.
  [1 + 2 ** -11, 0x3c00],
  [1 + 3 * 2 ** -11, 0x3c02],
  [2047.5 / 1024, 0x4000],
])("%d is %d", (value, bits) => {
  expect(numberToFloat16(value)).toBe(bits);
});

test("rounds ties to even", () => {
  expect([0.5, 1.5, 2.5, 0.49, 0.51, -0.5, -1.5].map(roundToEven)).toEqual([0, 2, 2, 0, 1, 0, -2]);
});
