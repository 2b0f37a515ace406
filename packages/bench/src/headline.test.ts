import { compareWithinBudgets, type Point, pointOf, type Summary } from "@dlrm/reporter";
import { expect, it } from "vitest";
import { renderHeadline } from "./headline.ts";

function point(arm: string, bReq: number, examplesPerS: number, p99Ms: number, clientBound = false): Point {
  const values = {
    examplesPerS,
    p50Ms: 1,
    p99Ms,
    errors: {},
    serverCpuMicrosPerExample: null,
    serverPeakRssBytes: null,
    serverPeakPssBytes: null,
    clientCpuFraction: null,
    clientBound,
  };
  return pointOf({ arm, bReq, mode: "closed", concurrency: 1, offeredRps: null }, [{ repeat: 1, ...values }]);
}

it("is a table of the best throughputs, with what is left out marked and why arms are missing", () => {
  const points = [
    point("engine", 1, 15_000.4, 12),
    point("py", 1, 1000, 19),
    point("engine", 16, 40_000, 5, true),
    point("py", 16, 9000, 24.4),
  ];
  const families = new Map([["engine", "engine"] as const, ["py", "python"] as const]);
  const summary: Summary = {
    schemaVersion: 1,
    platform: "sim",
    preset: "dcnv2-6m",
    simulatedAccelerator: true,
    environment: {},
    settings: {},
    parity: [],
    points,
    budgets: compareWithinBudgets(points, families),
    arms: [
      { arm: "engine", title: "", family: "engine", status: "ok" },
      { arm: "node", title: "", family: "node", status: "failed", reason: "it did not start" },
    ],
  };
  expect(renderHeadline(summary)).toBe(
    [
      "Examples/s at p99 ≤ 20 ms (dcnv2-6m on sim, simulated accelerator)",
      "B_req   engine                py  engine ÷ best Python",
      "    1    15000              1000                15.00×",
      "   16  40000 *  9000 (p99 24 ms)                     –",
      "* client-bound, with errors or of an arm that failed parity: left out of comparisons",
      "node failed: it did not start",
      "",
    ].join("\n"),
  );
});

it("marks arms that failed parity", () => {
  const points = [point("engine", 1, 9000, 12), point("py", 1, 1000, 19)];
  const headline = renderHeadline({
    schemaVersion: 1,
    platform: "cpu",
    preset: "dcnv2-lite",
    simulatedAccelerator: false,
    environment: {},
    settings: {},
    parity: [{ arm: "engine", bReq: 1, maxAbsDiff: 0.01, ok: false }],
    points,
    budgets: [],
  });
  expect(headline).toContain("\n    1  9000 *  1000                     –\n");
  expect(headline).toContain("* client-bound, with errors or of an arm that failed parity: left out of comparisons");
});
