import { expect, test } from "vitest";
import type { LatencySummary } from "./load-result.ts";
import { scenarioOutcome } from "./scenario.ts";

const run = (p99Ms: number, valid = true) => ({ latency: { p99Ms } as LatencySummary, requestsPerS: 50, valid });
const form = { mode: { kind: "open", offeredRps: 50 }, requestSize: "mlperf" } as const;

test("p99 at the bound passes, and counts samples", () => {
  expect(scenarioOutcome(form, run(60))).toEqual({
    name: "mlperf-server",
    p99BoundMs: 60,
    p99Ms: 60,
    samplesPerS: 50,
    passed: true,
  });
});

test.each([
  [run(60.1), "p99 60.1 ms is over 60 ms: offer a lower rate"],
  [run(1, false), "the run is INVALID"],
])("else it says why not (%#)", (measured, reason) => {
  expect(scenarioOutcome(form, measured)).toMatchObject({ passed: false, reason });
});

test("other load is not the scenario", () => {
  expect(scenarioOutcome({ ...form, requestSize: 270 }, run(1))).toBeUndefined();
  expect(scenarioOutcome({ ...form, mode: { kind: "closed", concurrency: 1 } }, run(1))).toBeUndefined();
});
