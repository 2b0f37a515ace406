import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fillUniform, uniformStream, type UniformFill } from "./uniform-stream.ts";

/** The generator once more, one value at a time, in exact integers of any size. */
function referenceValue(
  seed: number,
  name: string,
  row: number,
  column: number,
  bound: number,
  opposed: boolean,
): number {
  const word = (value: bigint): bigint => BigInt.asUintN(32, value);
  const mix = (value: bigint, inner = 0n): bigint => {
    let bits = word(value);
    bits = word((bits ^ (bits >> 16n)) * 0x21f0aaadn) ^ inner;
    bits = word((bits ^ (bits >> 15n)) * 0x735a2d97n);
    return bits ^ (bits >> 15n);
  };
  const fnv1a = (offset: bigint): bigint =>
    new TextEncoder().encode(name).reduce((hash, byte) => word((hash ^ BigInt(byte)) * 0x01000193n), offset);
  const keyA = mix(fnv1a(0x811c9dc5n ^ BigInt(seed)));
  const keyB = mix(fnv1a(mix(BigInt(seed) ^ 0x9e3779b9n)));
  const key = BigInt(opposed ? Math.floor(row / 2) : row);
  const bits = mix(mix(key ^ keyA) + 0x9e3779b9n * BigInt(column), mix(word(key * 0x9e3779b1n) ^ keyB));
  const sign = opposed && row % 2 === 1 ? -1 : 1;
  return Math.fround(Number(BigInt.asIntN(32, bits) >> 8n) * ((sign * bound) / 2 ** 23));
}

function rowsOf(seed: number, name: string, rows: number, fill: UniformFill): Float32Array {
  const out = new Float32Array(rows * fill.width);
  fillUniform(out, uniformStream(seed, name), fill);
  return out;
}

const anySeed = fc.nat({ max: 2 ** 32 - 1 });

describe("fillUniform", () => {
  test("equals the definition in big integers, for any seed, name, place and sign", () => {
    fc.assert(
      fc.property(
        anySeed,
        fc.string(),
        fc.nat({ max: 2 ** 31 - 2 }),
        fc.integer({ min: 1, max: 9 }),
        fc.double({ min: 1e-3, max: 10, noNaN: true }),
        fc.boolean(),
        (seed, name, firstRow, width, bound, opposedRows) => {
          const values = rowsOf(seed, name, 3, { firstRow, width, bound, opposedRows });
          const expected = Array.from({ length: 3 * width }, (_, at) =>
            referenceValue(seed, name, firstRow + Math.floor(at / width), at % width, bound, opposedRows),
          );
          expect([...values]).toEqual(expected);
        },
      ),
    );
  });

  test("makes the same rows whichever row it starts with", () => {
    const whole = rowsOf(3, "t", 40, { firstRow: 0, width: 6, bound: 1 });
    fc.assert(
      fc.property(fc.nat({ max: 39 }), (firstRow) => {
        const part = rowsOf(3, "t", 40 - firstRow, { firstRow, width: 6, bound: 1 });
        expect(part).toEqual(whole.subarray(firstRow * 6));
      }),
    );
  });

  test("never makes the same row twice in a table", () => {
    const values = rowsOf(1, "sparse_0", 200_000, { firstRow: 0, width: 2, bound: 1 });
    const rows = new Set(new BigUint64Array(values.buffer));
    expect(rows.size).toBe(200_000);
  });

  test("gives other tensors and other seeds other values", () => {
    const first = rowsOf(1, "a", 1, { firstRow: 0, width: 64, bound: 1 });
    for (const other of [
      rowsOf(1, "b", 1, { firstRow: 0, width: 64, bound: 1 }),
      rowsOf(2, "a", 1, { firstRow: 0, width: 64, bound: 1 }),
    ]) {
      expect(other.filter((value, index) => value === first[index])).toHaveLength(0);
    }
  });

  test("is uniform over [-bound, bound): counts of 100 bins are as even as chance makes them", () => {
    const values = rowsOf(1, "u", 10_000, { firstRow: 0, width: 100, bound: 0.5 });
    const bins = Array.from({ length: 100 }, () => 0);
    expect(values.every((value) => value >= -0.5 && value < 0.5)).toBe(true);
    for (const value of values) {
      const bin = Math.floor((value + 0.5) * 100);
      bins[bin] = (bins[bin] as number) + 1;
    }
    // χ² with 99 degrees of freedom: 60 and 149 are its 0.1 % and 99.9 % quantiles.
    const chiSquare = bins.reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0);
    expect(chiSquare).toBeGreaterThan(60);
    expect(chiSquare).toBeLessThan(149);
  });

  test("shows no correlation between neighbours in a row and in a column", () => {
    const width = 100;
    const values = rowsOf(1, "c", 1000, { firstRow: 0, width, bound: 1 });
    const correlation = (distance: number): number => {
      let sum = 0;
      for (let at = distance; at < values.length; at++)
        sum += (values[at] as number) * (values[at - distance] as number);
      return (3 * sum) / values.length;
    };
    // Standard deviation of such a correlation is 1/√100,000 = 0.0032.
    for (const distance of [1, 2, width, width + 1]) expect(Math.abs(correlation(distance))).toBeLessThan(0.013);
  });
});
