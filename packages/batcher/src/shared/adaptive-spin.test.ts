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

test("two looks in vain end a trial, and after each more waits go without one", () => {
  const waits = rig();
  expect(waits(2 + 4 + 2 + 16 + 2 + 64 + 2)).toBe(`--${".".repeat(4)}--${".".repeat(16)}--${".".repeat(64)}--`);
});

test.each([
  { how: "after the first look", findsAt: 2 },
  { how: "at once", findsAt: 1 },
])("to find something $how pays: looks go on, and some in vain do not end them", ({ findsAt }) => {
  const waits = rig();
  expect(waits(100, findsAt)).toBe("+".repeat(100));
  expect(waits(8)).toBe("----....");
});

test("a look in vain costs what two that pay earn", () => {
  const waits = rig();
  expect(waits(100, 1)).toBe("+".repeat(100));
  for (let i = 0; i < 10; i += 1) {
    expect(waits(1) + waits(2, 1)).toBe("-++");
  }
  expect(waits(5)).toBe("----.");
});

test("looks that pay for long make the next pause short again", () => {
  const waits = rig();
  expect(waits(2 + 4 + 2 + 16)).toBe(`--....--${".".repeat(16)}`);
  expect(waits(5, 1)).toBe("+++++");
  expect(waits(9)).toBe("----....-");
});

test("no more than 256 waits in a row go without a look", () => {
  const waits = rig();
  expect(
    Math.max(
      ...waits(3000)
        .split("-")
        .map((skipped) => skipped.length),
    ),
  ).toBe(256);
});

test("when something has changed a trial begins at once", () => {
  const spin = new AdaptiveSpin(SHORT_MICROS);
  for (let i = 0; i < 2; i += 1) {
    expect(spin.worthwhile()).toBe(true);
    expect(spin.look(() => false)).toBe(false);
  }
  expect(spin.looks).toBe(false);
  expect(spin.worthwhile()).toBe(false);
  spin.retry();
  expect(spin.looks).toBe(true);
  expect(spin.worthwhile()).toBe(true);
});

test("0 microseconds is never", () => {
  expect(rig(0)(3)).toBe("...");
});

test.each([-1, Number.NaN])("%d microseconds are refused", (micros) => {
  expect(() => new AdaptiveSpin(micros)).toThrow(`spinMicros: expected 0 or more microseconds, received ${micros}`);
});
