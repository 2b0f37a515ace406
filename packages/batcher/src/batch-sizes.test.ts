import fc from "fast-check";
import { expect, test } from "vitest";
import { BatchSizes } from "./batch-sizes.ts";

test("the allowed sizes around a size are the nearest ones", () => {
  const lists = fc.uniqueArray(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 120 }), (list, size) => {
      const sizes = new BatchSizes(list.toSorted((a, b) => a - b));
      const above = list.filter((allowed) => allowed >= size);
      const below = list.filter((allowed) => allowed <= size);
      expect(sizes.atLeast(size)).toBe(above.length === 0 ? size : Math.min(...above));
      expect(sizes.atMost(size)).toBe(below.length === 0 ? 0 : Math.max(...below));
    }),
  );
});

test("without a list every size is allowed", () => {
  const sizes = new BatchSizes(undefined);
  expect([sizes.atLeast(7), sizes.atMost(7)]).toEqual([7, 7]);
});
