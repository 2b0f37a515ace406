import { describe, expect, test } from "vitest";
import { formatMs, formatProgress } from "./progress-line.ts";
import { judge } from "./verdict.ts";

const good = { clientCpuFraction: 0.85, intended: 1000, dropped: 0, late: 10, errors: { UNAVAILABLE: 1 } };

describe("judge", () => {
  test("a run at its bounds is valid", () => {
    expect(judge(good)).toEqual({ valid: true, reasons: [] });
  });

  test.each([
    [{ clientCpuFraction: 0.851 }, "client-bound: the load processes used 85.1 % of their CPU (bound 85 %)"],
    [{ late: 11 }, "11 of 1000 sends were late (bound 1 %)"],
    [
      { dropped: 1 },
      "1 of 1000 sends were dropped, too many requests were outstanding: the server does not keep up with the rate: lower it",
    ],
    [
      { errors: { UNAVAILABLE: 1, INTERNAL: 1 }, errorSample: "INTERNAL: oh" },
      "2 of 1000 requests failed (bound 0.1 %), first: INTERNAL: oh: put that right",
    ],
    [{ intended: 0, late: 0, errors: {} }, "no request falls into the measured window"],
  ])("%j is not", (change, reason) => {
    const { valid, reasons } = judge({ ...good, ...change });
    expect([valid, reasons.length]).toEqual([false, 1]);
    expect(reasons[0]).toContain(reason);
  });
});

test("the progress line has rate, percentiles, errors and the time left", () => {
  expect(
    formatProgress({
      phase: "measuring",
      elapsedS: 3.2,
      leftS: 8.8,
      requestsPerS: 12_345.6,
      examplesPerS: 197_529.6,
      p50Ms: 0.4567,
      p99Ms: 12.3456,
      errors: 3,
    }),
  ).toBe("measuring  12,346 req/s  197,530 examples/s  p50 457 µs  p99 12.3 ms  3 errors  9 s left");
  expect(formatMs(undefined)).toBe("-");
});
