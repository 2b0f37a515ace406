import {
  compareWithinBudgets,
  pointOf,
  type ArmFamily,
  type Point,
  type PointRepeat,
  type Summary,
} from "../src/index.ts";

const MIB = 2 ** 20;

export function repeatOf(repeat: number, changes: Partial<PointRepeat> = {}): PointRepeat {
  return {
    repeat,
    examplesPerS: 1000,
    p50Ms: 1,
    p99Ms: 5,
    errors: {},
    serverCpuMicrosPerExample: 50,
    serverPeakRssBytes: 100 * MIB,
    serverPeakPssBytes: 90 * MIB,
    clientCpuFraction: 0.25,
    clientBound: false,
    ...changes,
  };
}

/** A closed-loop point whose repeats have these throughputs. */
export function closedPoint(
  arm: string,
  bReq: number,
  concurrency: number,
  examplesPerS: readonly number[],
  changes: Partial<PointRepeat> = {},
): Point {
  return pointOf(
    { arm, bReq, mode: "closed", concurrency, offeredRps: null },
    examplesPerS.map((value, index) => repeatOf(index + 1, { ...changes, examplesPerS: value })),
  );
}

export const FAMILIES: ReadonlyMap<string, ArmFamily> = new Map([
  ["engine", "engine"],
  ["engine-batch", "engine"],
  ["py", "python"],
  ["node", "node"],
]);

/** A run on the simulated accelerator with everything a report can show. */
export function fixedSummary(): Summary {
  const points = [
    closedPoint("engine", 1, 1, [2000, 2100, 1900], { p50Ms: 0.45, p99Ms: 0.9 }),
    closedPoint("engine", 1, 64, [21_000, 20_000, 22_000], { p99Ms: 8, clientBound: true, clientCpuFraction: 0.97 }),
    closedPoint("engine", 1, 16, [15_000, 15_600, 14_900], { p99Ms: 4.2 }),
    closedPoint("engine-batch", 1, 16, [9000, 9100, 9050], { p99Ms: 4.4 }),
    closedPoint("py", 1, 1, [700, 710, 690], { p99Ms: 2.2, serverCpuMicrosPerExample: 820 }),
    closedPoint("py", 1, 16, [1000, 1100, 1050], { p99Ms: 19.9, serverCpuMicrosPerExample: 817.5 }),
    closedPoint("py", 1, 64, [1200, 1210, 1205], { p99Ms: 60, serverCpuMicrosPerExample: 815 }),
    closedPoint("engine", 16, 16, [40_000, 41_000, 39_000], { p99Ms: 18 }),
    closedPoint("py", 16, 16, [9000, 9500, 9100], { p99Ms: 14, errors: { UNAVAILABLE: 2 } }),
    pointOf({ arm: "engine", bReq: 1, mode: "open", concurrency: null, offeredRps: 7500, peakFraction: 0.5 }, [
      repeatOf(1, { examplesPerS: 7490, p99Ms: 1.5, p50FromSendMs: 0.9, p99FromSendMs: 1.25, dropped: 0, late: 3 }),
      repeatOf(2, { examplesPerS: 7510, p99Ms: 2.5, p50FromSendMs: 0.9, p99FromSendMs: 1.75, dropped: 4, late: 5 }),
    ]),
  ];
  return {
    schemaVersion: 1,
    platform: "sim",
    preset: "dcnv2-6m",
    simulatedAccelerator: true,
    environment: {
      startedAt: "2026-11-29T12:00:00.000Z",
      cpuModel: "A processor",
      cpuCount: 2,
      node: "24.21.0",
      packages: { jax: "0.7.0", numpy: "2.3.0" },
      gatherKernel: "javascript",
      gatherWhyNotNative: "no binary for this platform",
      stealFraction: 0.01,
    },
    settings: {
      command: "dlrm-bench --platform sim --arms engine,engine-batch,py,node",
      arms: ["engine", "engine-batch", "py", "node"],
      durationS: 5,
      repeats: 3,
      concurrencies: [1, 16, 64],
    },
    parity: [
      { arm: "engine", bReq: 1, maxAbsDiff: 2.5e-7, ok: true },
      { arm: "py", bReq: 1, maxAbsDiff: 1e-7, ok: true },
      { arm: "node", bReq: 1, maxAbsDiff: null, ok: false, error: "scores has shape [2] | expected [1]" },
    ],
    points,
    budgets: compareWithinBudgets(points, FAMILIES),
    arms: [
      { arm: "engine", title: "the engine, adaptive batching", family: "engine", status: "ok" },
      {
        arm: "engine-batch",
        title: "the engine, 1 ms window",
        family: "engine",
        status: "ok",
        warnings: ["did not end within 10 s of SIGTERM"],
      },
      { arm: "py", title: "one CPython process", family: "python", status: "ok" },
      {
        arm: "node",
        title: "grpc-js",
        family: "node",
        status: "failed",
        reason: "parity failed at B_req 1",
        logTail: ["listening", "```", "TypeError: x is not a function"],
      },
    ],
  };
}
