import { expect, test } from "vitest";
import { AdaptiveSpin } from "./adaptive-spin.ts";

// A look this short ends with the first reading of the clock.
const SHORT_MICROS = 1e-6;

/** A spin, and what it does with a row of waits: `+` a look that found, `-` one in vain, `.` none. */
function rig(micros: number = SHORT_MICROS): (count: number, findsAt?: number) => string {
  const spin = new AdaptiveSpin(micros);
  return (count, findsAt = Infinity) =>
    Array.from({ length: count }, () => {
      let looks = 0;
      return spin.worthwhile() ? (spin.look(() => (looks += 1) >= findsAt) ? "+" : "-") : ".";
    }).join("");
}

test("after looks in vain more and more waits go without one", () => {
  const waits = rig();
  expect(waits(26)).toBe(`-.-${".".repeat(4)}-${".".repeat(16)}-.`);
});

test("looks that pay bring the others back, by and by", () => {
  const waits = rig();
  expect(waits(24)).toBe(`-.-${".".repeat(4)}-${".".repeat(16)}`);
  // From 64 waits to 32, 16 and 8.
  expect(waits(3, 2)).toBe("+++");
  expect(waits(10)).toBe(`-${".".repeat(8)}-`);
});

test("to find something at once pays, too", () => {
  const waits = rig();
  expect(waits(7)).toBe(`-.-${".".repeat(4)}`);
  // From 16 waits to 8 and 4.
  expect(waits(2, 1)).toBe("++");
  expect(waits(6)).toBe(`-${".".repeat(4)}-`);
});

test("no more than 64 waits in a row go without a look", () => {
  const waits = rig();
  expect(
    Math.max(
      ...waits(3000)
        .split("-")
        .map((skipped) => skipped.length),
    ),
  ).toBe(64);
});

test("0 microseconds is never", () => {
  expect(rig(0)(3)).toBe("...");
});

test.each([-1, Number.NaN])("%d microseconds are refused", (micros) => {
  expect(() => new AdaptiveSpin(micros)).toThrow(`spinMicros: expected 0 or more microseconds, received ${micros}`);
});
