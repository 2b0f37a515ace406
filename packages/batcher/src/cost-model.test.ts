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
});
