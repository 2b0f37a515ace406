import { type ArmFamily, compareWithinBudgets, pointOf, type Point, type Summary } from "../src/index.ts";
import { repeatOf } from "./fixed-summary.ts";

const GIB = 2 ** 30;

interface ArmModel {
  readonly arm: string;
  readonly family: ArmFamily;
  /** Fixed CPU of a request, and CPU of an example, µs. */
  readonly requestMicros: number;
  readonly exampleMicros: number;
  readonly memoryBytes: number;
  /** Wait for more requests, ms. */
  readonly windowMs: number;
}

const ARMS: readonly ArmModel[] = [
  { arm: "engine", family: "engine", requestMicros: 26, exampleMicros: 20, memoryBytes: 3.4 * GIB, windowMs: 0 },
  { arm: "engine-batch", family: "engine", requestMicros: 27, exampleMicros: 20, memoryBytes: 3.4 * GIB, windowMs: 1 },
  {
    arm: "engine-nobatch",
    family: "engine",
    requestMicros: 180,
    exampleMicros: 22,
    memoryBytes: 3.4 * GIB,
    windowMs: 0,
  },
  { arm: "py", family: "python", requestMicros: 750, exampleMicros: 62, memoryBytes: 3.7 * GIB, windowMs: 0 },
  { arm: "py-batch", family: "python", requestMicros: 450, exampleMicros: 70, memoryBytes: 3.7 * GIB, windowMs: 1 },
  { arm: "py-mp", family: "python", requestMicros: 620, exampleMicros: 66, memoryBytes: 7.1 * GIB, windowMs: 0 },
  { arm: "py-mp-batch", family: "python", requestMicros: 480, exampleMicros: 68, memoryBytes: 7.1 * GIB, windowMs: 1 },
  { arm: "node", family: "node", requestMicros: 320, exampleMicros: 150, memoryBytes: 3.6 * GIB, windowMs: 0 },
];

/** A made-up run of eight arms with the shape of a real one; the same every time. `speed` of the engine, 1 by default. */
export function realisticSummary(speed = 1): Summary {
  const points: Point[] = [];
  for (const [place, model] of ARMS.entries()) {
    const factor = model.family === "engine" ? speed : 1;
    for (const bReq of [1, 16, 128]) {
      const cpuMicros = model.requestMicros / bReq + model.exampleMicros;
      const capacity = (factor * 1e6) / cpuMicros;
      for (const concurrency of [1, 4, 16, 64]) {
        const serviceMs = (bReq * cpuMicros) / 1000 + 0.4 + model.windowMs;
        const load = concurrency / (concurrency + 3);
        points.push(
          pointOf(
            { arm: model.arm, bReq, mode: "closed", concurrency, offeredRps: null },
            [1, 2, 3].map((repeat) => {
              const wobble = 1 + 0.03 * Math.sin(7 * place + 3 * repeat + bReq + concurrency);
              const examplesPerS = Math.round(
                Math.min(capacity * load, (concurrency * bReq * 1000) / serviceMs) * wobble,
              );
              const p50Ms = (concurrency * bReq * 1000) / examplesPerS;
              return repeatOf(repeat, {
                examplesPerS,
                p50Ms,
                p99Ms: p50Ms * 1.8 * wobble,
                serverCpuMicrosPerExample: (cpuMicros / factor) * (1 + 0.6 / concurrency) * wobble,
                serverPeakRssBytes: model.memoryBytes * 1.1,
                serverPeakPssBytes: model.memoryBytes + concurrency * 2 ** 20,
                clientCpuFraction: Math.min(0.99, examplesPerS / bReq / 25_000),
                clientBound: examplesPerS / bReq > 20_000,
              });
            }),
          ),
        );
      }
      for (const peakFraction of [0.5, 0.8]) {
        const offeredRps = Number(((peakFraction * capacity) / bReq).toPrecision(4));
        const baseMs = (bReq * cpuMicros) / 1000 + 0.4 + model.windowMs;
        points.push(
          pointOf(
            { arm: model.arm, bReq, mode: "open", concurrency: null, offeredRps, peakFraction },
            [1, 2, 3].map((repeat) => {
              const p99Ms = (baseMs / (1 - peakFraction)) * (1 + 0.1 * Math.sin(place + repeat));
              const values = { p50Ms: baseMs, p99Ms, p50FromSendMs: baseMs * 0.9, p99FromSendMs: p99Ms * 0.8 };
              return repeatOf(repeat, { examplesPerS: offeredRps * bReq, ...values, dropped: 0, late: 2 });
            }),
          ),
        );
      }
    }
  }
  const families = new Map(ARMS.map(({ arm, family }) => [arm, family]));
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
      python: "3.11.7",
      kernel: "6.1.0",
    },
    settings: {
      arms: ARMS.map(({ arm }) => arm),
      durationS: 10,
      warmupS: 2,
      repeats: 3,
      concurrencies: [1, 4, 16, 64],
    },
    parity: ARMS.flatMap(({ arm }) => [1, 16, 128].map((bReq) => ({ arm, bReq, maxAbsDiff: 1e-7 * bReq, ok: true }))),
    points,
    budgets: compareWithinBudgets(points, families),
    arms: ARMS.map(({ arm, family }) => ({ arm, family, title: `what ${arm} is`, status: "ok" })),
  };
}
