import { expect, test } from "vitest";
import type { TableInfo } from "./table.ts";
import { placeTables } from "./wasm-memory.ts";

const table = (rows: number, rowBytes: number): TableInfo => ({
  name: "t",
  rows,
  dim: rowBytes / 4,
  dtype: "float32",
  rowBytes,
  outOfVocabulary: { kind: "error" },
});

test("puts tables into the first memory with room, at cache lines", () => {
  expect(placeTables([table(3, 4), table(100, 8), table(2, 4)], 800)).toEqual({
    memoryBytes: [128, 832],
    tables: [
      [{ memory: 0, byteOffset: 0, firstRow: 0, rows: 3 }],
      [{ memory: 1, byteOffset: 0, firstRow: 0, rows: 100 }],
      [{ memory: 0, byteOffset: 64, firstRow: 0, rows: 2 }],
    ],
  });
});

test("splits a table larger than a memory between rows", () => {
  const { tables } = placeTables([table(10, 12)], 50);
  expect(tables[0]?.map(({ memory, firstRow, rows }) => [memory, firstRow, rows])).toEqual([
    [0, 0, 4],
    [1, 4, 4],
    [2, 8, 2],
  ]);
});

test("places more than 4 GiB", () => {
  const { memoryBytes, tables } = placeTables([table(40_000_000, 512)]);
  expect(memoryBytes.length).toBe(5);
  expect(tables[0]?.reduce((sum, { rows }) => sum + rows, 0)).toBe(40_000_000);
  expect(Math.max(...memoryBytes)).toBeLessThanOrEqual(2 ** 32 - 65_536);
});
