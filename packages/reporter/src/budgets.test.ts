import { describe, expect, it } from "vitest";
import { closedPoint, FAMILIES, repeatOf } from "../test/fixed-summary.ts";
import { bestPoint, compareWithinBudgets, isEligible } from "./budgets.ts";
import { pointOf } from "./point.ts";

describe("compareWithinBudgets", () => {
  it("takes the best point of each family within the budget, and their exact ratio", () => {
    const points = [
      closedPoint("engine", 1, 8, [9000], { p99Ms: 12 }),
      closedPoint("engine", 1, 1, [4000], { p99Ms: 3 }),
      closedPoint("engine-batch", 1, 8, [5000], { p99Ms: 10 }),
      closedPoint("py", 1, 8, [800], { p99Ms: 10.001 }),
      closedPoint("py", 1, 1, [400], { p99Ms: 4 }),
      closedPoint("node", 1, 8, [99_999], { p99Ms: 1 }),
    ];
    expect(compareWithinBudgets(points, FAMILIES, [10, 20])).toEqual([
      {
        bReq: 1,
        budgetMs: 10,
        engine: { arm: "engine-batch", examplesPerS: 5000 },
        python: { arm: "py", examplesPerS: 400 },
        ratio: 12.5,
      },
      {
        bReq: 1,
        budgetMs: 20,
        engine: { arm: "engine", examplesPerS: 9000 },
        python: { arm: "py", examplesPerS: 800 },
        ratio: 11.25,
      },
    ]);
  });

  it("has no ratio where a family has no eligible point, and orders request sizes", () => {
    const points = [
      closedPoint("engine", 128, 1, [10]),
      closedPoint("py", 16, 1, [10]),
      closedPoint("py", 128, 1, [0]),
    ];
    expect(compareWithinBudgets(points, FAMILIES, [20])).toEqual([
      { bReq: 16, budgetMs: 20, engine: null, python: { arm: "py", examplesPerS: 10 }, ratio: null },
      {
        bReq: 128,
        budgetMs: 20,
        engine: { arm: "engine", examplesPerS: 10 },
        python: { arm: "py", examplesPerS: 0 },
        ratio: null,
      },
    ]);
  });
});

describe("isEligible", () => {
  const slow = closedPoint("py", 1, 1, [10], { p99Ms: 20 });

  it("counts the bound itself as within", () => {
    expect(isEligible(slow, 20)).toBe(true);
    expect(isEligible(slow, 19.999)).toBe(false);
    expect(isEligible(slow, null)).toBe(true);
  });

  it("leaves out client-bound points, points with errors, points without latency and open loops", () => {
    const bound = closedPoint("py", 1, 1, [10], { clientBound: true });
    const faulty = closedPoint("py", 1, 1, [10], { errors: { INTERNAL: 1 } });
    expect(isEligible(bound, null)).toBe(false);
    expect(isEligible(bound, null, { clientBound: true })).toBe(true);
    expect(isEligible(faulty, null)).toBe(false);
    expect(isEligible(faulty, null, { errors: true })).toBe(true);
    expect(isEligible(closedPoint("py", 1, 1, [0], { p99Ms: null }), null)).toBe(false);
    const open = pointOf({ arm: "py", bReq: 1, mode: "open", concurrency: null, offeredRps: 5 }, [repeatOf(1)]);
    expect(isEligible(open, null)).toBe(false);
  });
});

it("bestPoint takes the first of equals", () => {
  const first = closedPoint("py", 1, 1, [10]);
  expect(bestPoint([first, closedPoint("py", 1, 2, [10])], null)).toBe(first);
  expect(bestPoint([], null)).toBeUndefined();
});
