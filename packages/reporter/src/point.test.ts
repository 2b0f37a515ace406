import { describe, expect, it } from "vitest";
import { repeatOf } from "../test/fixed-summary.ts";
import { isClientBound, pointOf } from "./point.ts";

const key = { arm: "engine", bReq: 16, mode: "closed", concurrency: 8, offeredRps: null } as const;

describe("pointOf", () => {
  it("takes medians of values and sums errors", () => {
    const repeats = [
      repeatOf(1, { examplesPerS: 100, p50Ms: 3, p99Ms: 30, errors: { UNAVAILABLE: 1, INTERNAL: 2 } }),
      repeatOf(2, { examplesPerS: 300, p50Ms: 1, p99Ms: 10, serverPeakPssBytes: null }),
      repeatOf(3, { examplesPerS: 200, p50Ms: 2, p99Ms: null, errors: { UNAVAILABLE: 4 } }),
    ];
    expect(pointOf(key, repeats)).toEqual({
      ...key,
      examplesPerS: 200,
      p50Ms: 2,
      p99Ms: 20,
      errors: { UNAVAILABLE: 5, INTERNAL: 2 },
      serverCpuMicrosPerExample: 50,
      serverPeakRssBytes: 100 * 2 ** 20,
      serverPeakPssBytes: 90 * 2 ** 20,
      clientCpuFraction: 0.25,
      clientBound: false,
      repeats,
    });
  });

  it("takes medians of gauges, by name", () => {
    const repeats = [
      repeatOf(1, { gauges: { gpu0PowerW: 100 } }),
      repeatOf(2),
      repeatOf(3, { gauges: { gpu0PowerW: 300, gpu0MemoryBytes: 4096 } }),
    ];
    expect(pointOf(key, repeats).gauges).toEqual({ gpu0PowerW: 200, gpu0MemoryBytes: 4096 });
    expect(pointOf(key, [repeatOf(1)])).not.toHaveProperty("gauges");
  });

  it.each([
    [[true], true],
    [[true, false], true],
    [[true, false, false], false],
    [[true, true, false], true],
    [[false, false, false, false], false],
  ])("with client-bound repeats %j is client-bound: %j", (flags, expected) => {
    expect(
      pointOf(
        key,
        flags.map((clientBound, index) => repeatOf(index + 1, { clientBound })),
      ).clientBound,
    ).toBe(expected);
  });

  it("has both latencies of an open loop, and sums what was dropped or late", () => {
    const open = { ...key, mode: "open", concurrency: null, offeredRps: 500, peakFraction: 0.5 } as const;
    const repeats = [
      repeatOf(1, { p50FromSendMs: 1, p99FromSendMs: 4, dropped: 2, late: 3 }),
      repeatOf(2, { p50FromSendMs: 3, p99FromSendMs: null, dropped: 0, late: 5 }),
    ];
    expect(pointOf(open, repeats)).toMatchObject({
      peakFraction: 0.5,
      p50FromSendMs: 2,
      p99FromSendMs: 4,
      dropped: 2,
      late: 8,
    });
    expect(pointOf(open, [repeatOf(1)])).not.toHaveProperty("dropped");
    expect(pointOf(open, [repeatOf(1)])).not.toHaveProperty("late");
  });

  it("refuses a point without repeats", () => {
    expect(() => pointOf(key, [])).toThrow("point of engine: expected at least 1 repeat, got 0");
  });
});

describe("isClientBound", () => {
  it.each([
    [0.85, 5, false],
    [0.8501, 0, true],
    [0.1, 5.001, true],
    [null, null, false],
  ])("CPU %s and send lag %s ms: %s", (cpu, lag, expected) => {
    expect(isClientBound(cpu, lag)).toBe(expected);
  });
});
