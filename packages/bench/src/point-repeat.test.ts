import type { LoadResult } from "@dlrm/loadgen";
import { describe, expect, it } from "vitest";
import { fakeLoad, fakeMonitor } from "../test/fake-measurement.ts";
import { cpuMicrosBetween, meanGauges, repeatOf } from "./point-repeat.ts";

describe("cpuMicrosBetween", () => {
  const samples = [
    { timeNs: 100, cpuMicros: 10 },
    { timeNs: 200, cpuMicros: 30 },
    { timeNs: 400, cpuMicros: 130 },
  ];

  it.each([
    [100, 400, 120],
    [100, 200, 20],
    [150, 300, 60],
    [200, 200, 0],
    [99, 200, null],
    [200, 401, null],
  ])("from %d to %d ns: %s", (from, to, expected) => {
    expect(cpuMicrosBetween(samples, from, to)).toBe(expected);
  });

  it("knows nothing without samples", () => {
    expect(cpuMicrosBetween([], 0, 1)).toBeNull();
  });
});

describe("meanGauges", () => {
  const samples = [
    { timeNs: 99, gauges: { gpu0UtilizationPercent: 1000 } },
    { timeNs: 100, gauges: { gpu0UtilizationPercent: 50 } },
    { timeNs: 150 },
    { timeNs: 200, gauges: { gpu0UtilizationPercent: 70, gpu0MemoryBytes: 4096 } },
    { timeNs: 201, gauges: { gpu0UtilizationPercent: 1000 } },
  ];

  it("takes what was told within the window, ends included", () => {
    expect(meanGauges(samples, 100, 200)).toEqual({ gpu0UtilizationPercent: 60, gpu0MemoryBytes: 4096 });
  });

  it("is undefined where nothing was told", () => {
    expect(meanGauges(samples, 101, 199)).toBeUndefined();
    expect(meanGauges([], 0, 1)).toBeUndefined();
  });
});

describe("repeatOf", () => {
  it("takes CPU of the measured window only, an example", () => {
    const load = fakeLoad({ examples: 2000, measuredFromNs: 1e9, measuredToNs: 2e9 });
    const server = fakeMonitor([
      [0, 0],
      [1e9, 50_000],
      [2e9, 250_000],
      [3e9, 900_000],
    ]);
    const repeat = repeatOf(2, { load, server, client: undefined, strays: [] }, "closed");
    expect(repeat).toMatchObject({
      repeat: 2,
      serverCpuMicrosPerExample: 100,
      p50Ms: 1,
      p99Ms: 2,
      errors: {},
      clientBound: false,
      serverPeakRssBytes: 2 ** 20,
      serverPeakPssBytes: 2 ** 19,
    });
  });

  it("has no PSS where the monitor had to take RSS for it", () => {
    const server = { ...fakeMonitor([]), pssNote: "PSS of 1 processes cannot be read, their RSS stands in" };
    expect(repeatOf(1, { load: fakeLoad(), server, client: undefined, strays: [] }, "closed")).toMatchObject({
      serverPeakRssBytes: 2 ** 20,
      serverPeakPssBytes: null,
    });
  });

  it("has no latency and no cost where nothing was answered, but its errors", () => {
    const load = fakeLoad({ examples: 0, requests: 0, examplesPerS: 0, errors: { UNAVAILABLE: 5, INTERNAL: 0 } });
    expect(repeatOf(1, { load, server: undefined, client: undefined, strays: [] }, "closed")).toMatchObject({
      examplesPerS: 0,
      p50Ms: null,
      p99Ms: null,
      serverCpuMicrosPerExample: null,
      serverPeakRssBytes: null,
      errors: { UNAVAILABLE: 5 },
    });
  });

  it("has both latencies of an open loop, and what was dropped or late", () => {
    const { latency } = fakeLoad();
    const load = fakeLoad({ latencyFromSend: { ...latency, p50Ms: 0.5, p99Ms: 1.25 }, dropped: 3, late: 4 });
    const measurement = { load, server: undefined, client: undefined, strays: [] };
    expect(repeatOf(1, measurement, "open")).toMatchObject({
      p50Ms: 1,
      p99Ms: 2,
      p50FromSendMs: 0.5,
      p99FromSendMs: 1.25,
      dropped: 3,
      late: 4,
    });
    expect(repeatOf(1, measurement, "closed")).not.toHaveProperty("p99FromSendMs");
  });

  it("has what the accelerator's gauges showed in the measured window, if there are any", () => {
    const server = fakeMonitor([
      [1e9, 0],
      [2e9, 1],
    ]);
    const samples = server.samples.map((sample, index) => ({ ...sample, gauges: { gpu0PowerW: 100 + 200 * index } }));
    const parts = { load: fakeLoad(), client: undefined, strays: [] };
    expect(repeatOf(1, { ...parts, server: { ...server, samples } }, "closed").gauges).toEqual({ gpu0PowerW: 200 });
    expect(repeatOf(1, { ...parts, server }, "closed")).not.toHaveProperty("gauges");
  });

  it("marks a client that was the limit", () => {
    const of = (changes: Partial<LoadResult>): boolean =>
      repeatOf(1, { load: fakeLoad(changes), server: undefined, client: undefined, strays: [] }, "closed").clientBound;
    expect(of({ clientCpuFraction: 0.86 })).toBe(true);
    expect(of({ clientCpuFraction: 0.85 })).toBe(false);
    expect(of({ sendLag: { ...fakeLoad().sendLag, p99Ms: 6 } })).toBe(true);
  });
});
