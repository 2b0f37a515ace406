import { expect, test } from "vitest";
import { gatherFeature } from "./gather.ts";

const WIDTH = 3;
const ROWS = 40;
/** Whole numbers, so that sums are exact in any order. */
const table = Float32Array.from({ length: ROWS * WIDTH }, (_, i) => i * 7 - 300);

test.each([1, 2, 3, 4, 5, 7, 8, 9, 12])("bags of %i ids are summed, and nothing else is written", (hotSize) => {
  const batch = 3;
  const [idsAt, outAt, stride] = [2, 5, 10];
  const ids = Int32Array.from({ length: idsAt + batch * hotSize + 1 }, (_, i) => (i * 11 + hotSize) % ROWS);
  const out = new Float32Array(outAt + batch * stride).fill(-1);
  const expected = [...out];
  for (let b = 0; b < batch; b++) {
    for (let j = 0; j < WIDTH; j++) {
      let sum = 0;
      for (let k = 0; k < hotSize; k++) sum += table[(ids[idsAt + b * hotSize + k] ?? 0) * WIDTH + j] ?? Number.NaN;
      expected[outAt + b * stride + j] = sum;
    }
  }
  gatherFeature(table, WIDTH, ids, idsAt, batch, hotSize, out, outAt, stride);
  expect([...out]).toEqual(expected);
});
