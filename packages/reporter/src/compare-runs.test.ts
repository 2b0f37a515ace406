import { describe, expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { realisticSummary } from "../test/realistic-summary.ts";
import { compareRuns, isDifferent } from "./compare-runs.ts";
import { renderComparison } from "./render-comparison.ts";
import type { Summary } from "./summary.ts";

function withPoints(points: Summary["points"], changes: Partial<Summary> = {}): Summary {
  return { ...fixedSummary(), points, budgets: [], ...changes };
}

describe("compareRuns", () => {
  it("compares points of the same arm, size and load, and names the others", () => {
    const a = withPoints([closedPoint("engine", 1, 16, [100, 100, 100]), closedPoint("py", 1, 16, [10, 10])]);
    const b = withPoints([closedPoint("engine", 1, 16, [150, 150]), closedPoint("engine", 1, 64, [1, 1])]);
    const { points, onlyA, onlyB, changes } = compareRuns(a, b);
    expect(points).toMatchObject([
      {
        arm: "engine",
        bReq: 1,
        load: "C 16",
        examplesPerS: { ratio: 1.5, low: 1.5, high: 1.5 },
        p99Ms: { ratio: 1, low: 1, high: 1 },
        cpuMicros: { ratio: 1, low: 1, high: 1 },
      },
    ]);
    expect(onlyA).toEqual(["py, B_req 1, C 16"]);
    expect(onlyB).toEqual(["engine, B_req 1, C 64"]);
    expect(changes).toEqual([]);
  });

  it("matches open-loop points by the share of the peak, whatever the rate was", () => {
    const { points, onlyA, onlyB } = compareRuns(realisticSummary(), realisticSummary(2));
    const open = points.filter(({ load }) => load === "80 % of the peak");
    expect(open).toHaveLength(24);
    expect(open[0]?.examplesPerS?.ratio).toBeCloseTo(2, 3);
    expect([onlyA, onlyB]).toEqual([[], []]);
  });

  it("says what changed in settings and environment, down to versions of packages", () => {
    const a = withPoints([], {
      environment: { startedAt: "x", packages: { jax: "0.7.0", numpy: "2.3.0" }, cpuCount: 2 },
    });
    const b = withPoints([], {
      environment: { startedAt: "y", packages: { jax: "0.8.0", numpy: "2.3.0" }, kernel: "6.1" },
      settings: { ...a.settings, concurrencies: [1, 16], command: "another" },
      platform: "cpu",
    });
    expect(compareRuns(a, b).changes).toEqual([
      { of: "run", name: "platform", a: "sim", b: "cpu" },
      { of: "settings", name: "concurrencies", a: "1, 16, 64", b: "1, 16" },
      { of: "environment", name: "packages.jax", a: "0.7.0", b: "0.8.0" },
      { of: "environment", name: "cpuCount", a: "2", b: "–" },
      { of: "environment", name: "kernel", a: "–", b: "6.1" },
    ]);
  });
});

it.each([
  [{ ratio: 1.1, low: 1.01, high: 1.2 }, true],
  [{ ratio: 0.9, low: 0.8, high: 0.99 }, true],
  [{ ratio: 1.1, low: 1, high: 1.2 }, false],
  [{ ratio: 2, low: null, high: null }, false],
  [null, false],
])("%j is different: %j", (interval, expected) => {
  expect(isDifferent(interval)).toBe(expected);
});

describe("renderComparison", () => {
  it("sets ratios whose interval leaves out 1 in bold, beside both values", () => {
    const a = withPoints([closedPoint("engine", 1, 16, [100, 100]), closedPoint("py", 1, 16, [10])]);
    const b = withPoints([closedPoint("engine", 1, 16, [150, 150]), closedPoint("py", 1, 16, [20])]);
    const text = renderComparison(a, b, compareRuns(a, b), { a: "before", b: "after" });
    expect(text).toContain("# Two runs compared, *simulated accelerator*");
    expect(text).toContain("- A: before (dcnv2-6m on sim)\n- B: after (dcnv2-6m on sim)");
    expect(text).toContain(
      "| 1 | engine | C 16 | 100 | 150 | **1.50× (1.50–1.50)** | 5.00 | 5.00 | 1.00× (1.00–1.00) | 1.00× (1.00–1.00) |",
    );
    expect(text).toContain("| 1 | py | C 16 | 10.0 | 20.0 | 2.00× | 5.00 | 5.00 | 1.00× | 1.00× |");
    expect(text).toContain("Throughput differs by 73.2 % at the median of the points; 0 of 2 are within 10 %.");
    expect(text).toContain("Nothing in settings and environment.");
  });

  it("shows how the headline moved", () => {
    const [a, b] = [realisticSummary(), realisticSummary(2)];
    const text = renderComparison(a, b, compareRuns(a, b), { a: "a", b: "b" });
    const row = /^\| 16 \| 20 ms \| ([\d.]+)× \| ([\d.]+)× \| ([\d.]+)× \|$/m.exec(text);
    expect(Number(row?.[2]) / Number(row?.[1])).toBeCloseTo(Number(row?.[3]), 1);
  });
});
