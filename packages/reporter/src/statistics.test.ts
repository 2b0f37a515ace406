import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { median, range } from "./statistics.ts";

describe("median", () => {
  it.each([
    [[], null],
    [[null, undefined], null],
    [[3], 3],
    [[3, 1], 2],
    [[9, 1, 5], 5],
    [[4, 1, 3, 2], 2.5],
    [[null, 7, undefined, 1, 3], 3],
  ])("of %j is %j", (values, expected) => {
    expect(median(values)).toBe(expected);
  });

  it("has as many values below as above, whatever the order", () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), (values) => {
        const middle = median(values) as number;
        const below = values.filter((value) => value < middle).length;
        const above = values.filter((value) => value > middle).length;
        expect(below).toBeLessThanOrEqual(values.length / 2);
        expect(above).toBeLessThanOrEqual(values.length / 2);
      }),
    );
  });

  it("leaves its argument as it was", () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });
});

describe("range", () => {
  it("is the smallest and largest number", () => {
    expect(range([3, null, -1, 8])).toEqual({ min: -1, max: 8 });
    expect(range([null])).toBeNull();
  });
});
