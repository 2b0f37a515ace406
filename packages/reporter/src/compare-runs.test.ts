import { describe, expect, it } from "vitest";
import { closedPoint, fixedSummary, repeatOf } from "../test/fixed-summary.ts";
import { realisticSummary } from "../test/realistic-summary.ts";
import { compareRuns, isDifferent } from "./compare-runs.ts";
import { renderComparison } from "./render-comparison.ts";
import { pointOf } from "./point.ts";
import type { Point, Summary } from "./summary.ts";

function withPoints(points: Summary["points"], changes: Partial<Summary> = {}): Summary {
  return { ...fixedSummary(), points, budgets: [], ...changes };
}

describe("compareRuns", () => {
  it("compares points of the same arm, size and load, and names the others", () => {
    const a = withPoints([closedPoint("engine", 1, 16, [100, 100, 100]), closedPoint("py", 1, 16, [10, 10])]);
    const b = withPoints([closedPoint("engine", 1, 16, [150, 150, 150]), closedPoint("engine", 1, 64, [1, 1])]);
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
    const a = withPoints([closedPoint("engine", 1, 16, [100, 100, 100]), closedPoint("py", 1, 16, [10, 10])]);
    const b = withPoints([closedPoint("engine", 1, 16, [150, 150, 150]), closedPoint("py", 1, 16, [20, 20])]);
    const text = renderComparison(a, b, compareRuns(a, b), { a: "before", b: "after" });
    expect(text).toContain("# Two runs compared, *simulated accelerator*");
    expect(text).toContain("- A: before (dcnv2-6m on sim)\n- B: after (dcnv2-6m on sim)");
    expect(text).toContain(
      "| 1 | engine | C 16 | 100 | 150 | **1.50× (1.50–1.50)** | 5.00 | 5.00 | 1.00× (1.00–1.00) | 1.00× (1.00–1.00) |  |",
    );
    expect(text).toContain("| 1 | py | C 16 | 10.0 | 20.0 | 2.00× | 5.00 | 5.00 | 1.00× | 1.00× |  |");
    expect(text).toContain("Throughput differs by 73.2 % at the median of the points; 0 of 2 are within 10 %.");
    expect(text).toContain("Nothing in settings and environment.");
  });

  it("says how many bold ratios chance makes with as few repeats", () => {
    const a = withPoints([1, 2, 3, 4].map((size) => closedPoint("py", size, 1, [5, 5, 5, 5, 5, 5].slice(size))));
    const points = [3, 5, 3, 2].map((repeats, index) =>
      closedPoint("py", index + 1, 1, [9, 9, 9, 9, 9].slice(-repeats)),
    );
    const b = withPoints(points);
    const names = { a: "a", b: "b", confidence: 0.995 };
    expect(renderComparison(a, b, compareRuns(a, b, names), names)).toContain(
      "bootstrap confidence interval (99.5 %) over the repeats; bold where it leaves out 1×. " +
        "With 5 and 3 repeats, 3.57 % of the ratios of runs that do not differ are bold by chance. " +
        "How often that is chance with 4 and 5 repeats depends on how they spread. " +
        "With 3 and 3 repeats, 10 % of the ratios of runs that do not differ are bold by chance. " +
        "2 and 2 repeats are too few for an interval. The interval knows",
    );
  });

  it("notes what tells against a point, for each side", () => {
    const a = withPoints([
      closedPoint("engine", 1, 16, [9], { clientBound: true, errors: { INTERNAL: 1 } }),
      closedPoint("py", 1, 16, [9]),
    ]);
    const b = withPoints([
      closedPoint("engine", 1, 16, [9], { errors: { INTERNAL: 1 } }),
      closedPoint("py", 1, 16, [9]),
    ]);
    const text = renderComparison(a, b, compareRuns(a, b), { a: "a", b: "b" });
    expect(text).toMatch(/^\| 1 \| engine \| C 16 \|.*\| A: client-bound, errors; B: errors \|$/m);
    expect(text).toMatch(/^\| 1 \| py \| C 16 \|.*\| {2}\|$/m);
  });

  it("shows the rates that open loops were offered, and counts none as alike that was offered another", () => {
    const open = (bReq: number, offeredRps: number, dropped: number): Point =>
      pointOf({ arm: "py", bReq, mode: "open", concurrency: null, offeredRps, peakFraction: 0.5 }, [
        repeatOf(1, { examplesPerS: offeredRps, dropped }),
      ]);
    const a = withPoints([open(1, 1000, 0), open(4, 1000, 3)]);
    const b = withPoints([open(1, 1040, 0), open(4, 1060, 0)]);
    const text = renderComparison(a, b, compareRuns(a, b), { a: "a", b: "b" });
    expect(text).toContain("| 1 | py | 50 % of the peak, requests/s: A 1,000, B 1,040 |");
    expect(text).toMatch(/^\| 4 \| py \| 50 % of the peak, requests\/s: A 1,000, B 1,060 \|.*\| A: sends dropped \|$/m);
    expect(text).toContain(
      "Throughput differs by 4.0 % at the median of the points; 1 of 1 are within 10 %. " +
        "Left out of that: 1 of the open loop, whose offered rates differ by more than 5 %.",
    );
  });

  it("shows how the headline moved", () => {
    const [a, b] = [realisticSummary(), realisticSummary(2)];
    const text = renderComparison(a, b, compareRuns(a, b), { a: "a", b: "b" });
    const row = /^\| 16 \| 20 ms \| ([\d.]+)× \| ([\d.]+)× \| ([\d.]+)× \|$/m.exec(text);
    expect(Number(row?.[2]) / Number(row?.[1])).toBeCloseTo(Number(row?.[3]), 1);
  });
});
