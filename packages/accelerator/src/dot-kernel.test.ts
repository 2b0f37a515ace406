import { describe, expect, test } from "vitest";
import { DotKernel } from "./dot-kernel.ts";
import { shared } from "../test/open-devices.ts";

function reference(x: Float32Array, v: Float32Array, rows: number): number[] {
  return Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let i = 0; i < v.length; i++) sum += x[row * v.length + i]! * v[i]!;
    return sum;
  });
}

describe("the dot kernel", () => {
  // Widths around the unit of 16, one row that is larger than a chunk, and the width of a DLRM.
  const widths = [1, 2, 15, 16, 17, 31, 32, 33, 100, 3328, 40_000];
  const rows = [0, 1, 2, 9, 10, 23];
  test.each(widths.flatMap((width) => rows.map((count) => ({ width, count }))))(
    "agrees with float64: width $width, $count rows",
    ({ width, count }) => {
      const v = Float32Array.from({ length: width }, (_, i) => Math.sin(i) / Math.sqrt(width));
      const x = shared(width * (count + 1)).map((_, i) => Math.cos(i * 0.7));
      const out = new Float32Array(count);
      new DotKernel(v).run(Buffer.from(x.buffer), out);
      const expected = reference(x, v, count);
      for (let row = 0; row < count; row++) expect(Math.abs(out[row]! - expected[row]!)).toBeLessThan(2e-6);
    },
  );

  test("is exact on small integers, at any place in a buffer, and says nothing of an earlier call", () => {
    const width = 5;
    const kernel = new DotKernel(Float32Array.of(1, 2, 3, 4, 5));
    const all = shared(1 + 3 * width);
    all.set([99, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, -1, 0, 0, 0, 2]);
    const out = new Float32Array(3).fill(7);
    kernel.run(Buffer.from(all.buffer, 4), out);
    expect([...out]).toEqual([15, 5, 9]);
    kernel.run(Buffer.from(all.buffer, 4 + 4 * width), out.subarray(0, 1));
    expect([...out]).toEqual([5, 5, 9]);
  });
});
