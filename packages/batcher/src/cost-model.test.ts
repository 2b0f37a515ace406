import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CostModel } from "./cost-model.ts";

describe("the cost model", () => {
  test("finds the fixed cost and the cost of an item", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 10, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.uniqueArray(fc.integer({ min: 0, max: 12 }), { minLength: 2, maxLength: 8 }),
        (fixedMs, perSizeMs, powers) => {
          fc.pre(fixedMs + perSizeMs > 1e-3);
          const cost = new CostModel();
          for (const power of powers) {
            cost.observe(2 ** power, fixedMs + perSizeMs * 2 ** power);
          }
          for (const power of powers) {
            const size = 2 ** power;
            expect(cost.runMs(size)).toBeCloseTo(fixedMs + perSizeMs * size, 4);
          }
          expect(cost.fixedMs).toBeGreaterThanOrEqual(0);
          expect(cost.perSizeMs).toBeGreaterThanOrEqual(0);
        },
      ),
    );
  });

  test("takes all cost for fixed as long as one size only was seen, so that larger batches are tried", () => {
    const cost = new CostModel();
    expect(cost.known).toBe(false);
    cost.observe(4, 2);
    expect([cost.known, cost.fixedMs, cost.perSizeMs, cost.runMs(400)]).toEqual([true, 2, 0, 2]);
  });

  test("is not thrown by a pause, and follows a lasting change", () => {
    const cost = new CostModel();
    for (let i = 0; i < 50; i += 1) {
      cost.observe(1, 1);
      cost.observe(100, 2);
    }
    cost.observe(1, 500);
    expect(cost.runMs(1)).toBeCloseTo(1 + 0.5 / 16, 6);
    for (let i = 0; i < 200; i += 1) {
      cost.observe(1, 3);
    }
    expect(cost.runMs(1)).toBeCloseTo(3, 1);
  });

  test("a thousand batches of one size do not outweigh a few of another", () => {
    const cost = new CostModel();
    for (let i = 0; i < 1000; i += 1) {
      cost.observe(1, 5);
    }
    cost.observe(1000, 15);
    expect(cost.perSizeMs).toBeCloseTo(10 / 999, 6);
    expect(cost.fixedMs).toBeCloseTo(5 - 10 / 999, 6);
  });

  test("never gives a negative part", () => {
    const cost = new CostModel();
    cost.observe(1, 10);
    cost.observe(100, 5);
    expect(cost.perSizeMs).toBe(0);
    const steep = new CostModel();
    steep.observe(10, 1);
    steep.observe(100, 100);
    expect(steep.fixedMs).toBe(0);
  });

  test.each([
    ["nothing was measured", [], Infinity, false],
    ["one size was", [[8, 3]], 8, false],
    [
      "size pays",
      [
        [1, 1],
        [8, 2],
        [64, 8],
      ],
      64,
      false,
    ],
    [
      "size pays, but next to nothing from some on",
      [
        [1, 1],
        [8, 2],
        [16, 3.2],
        [32, 6.3],
      ],
      16,
      false,
    ],
    [
      "the largest batches cost more again",
      [
        [1, 1],
        [8, 2],
        [64, 8],
        [128, 17],
      ],
      64,
      true,
    ],
    [
      "they do, by less than what is measured wrongly",
      [
        [1, 1],
        [8, 2],
        [64, 8],
        [128, 16.5],
      ],
      64,
      false,
    ],
    [
      "the clock is too coarse for the shorter runs",
      [
        [1, 0],
        [8, 0],
        [64, 1],
        [128, 2],
      ],
      64,
      true,
    ],
    [
      "it is so for all",
      [
        [1, 0],
        [8, 0],
      ],
      Infinity,
      false,
    ],
    [
      "each size costs more than the one before",
      [
        [1, 1],
        [8, 9],
        [64, 90],
      ],
      1,
      true,
    ],
  ] as const)(
    "knows the cheapest size, and whether size costs more and more, when %s",
    (_, costs, cheapest, isSteep) => {
      const cost = new CostModel();
      for (let i = 0; i < 3; i += 1) {
        for (const [size, runMs] of costs) {
          cost.observe(size, runMs);
        }
      }
      expect([cost.cheapestSize, cost.isSteep]).toEqual([cheapest, isSteep]);
    },
  );

  test("a size is dear only if it was so three times, and may become cheaper", () => {
    const cost = new CostModel();
    const known = (): unknown => [cost.isSettled(16), cost.cheapestSize, cost.isSteep];
    cost.observe(1, 1);
    cost.observe(8, 2);
    cost.observe(16, 8);
    cost.observe(16, 8);
    expect(known()).toEqual([false, 8, false]);
    cost.observe(16, 8);
    expect(known()).toEqual([true, 8, true]);
    for (let i = 0; i < 300; i += 1) {
      cost.observe(16, 2);
    }
    expect(known()).toEqual([true, 16, false]);
  });
});
