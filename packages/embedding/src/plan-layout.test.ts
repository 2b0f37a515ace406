import { expect, test } from "vitest";
import { checkIds, checkOutput, layOutPlan, locateId } from "./plan-layout.ts";
import type { TableInfo } from "./table.ts";

const table = (name: string, rows: number, dim: number): TableInfo => ({
  name,
  rows,
  dim,
  dtype: "float32",
  rowBytes: dim * 4,
  outOfVocabulary: { kind: "error" },
});
const tables = [table("a", 10, 4), table("b", 20, 8)];

test("lays features out one after the other, in ids and in output", () => {
  const layout = layOutPlan(tables, [
    { table: "b", hotSize: 3 },
    { table: "a", hotSize: 0 },
    { table: "b", hotSize: 1 },
  ]);
  expect(layout).toMatchObject({ idsPerExample: 4, outputWidth: 20 });
  expect(layout.features.map(({ tableIndex, hotBefore, column }) => [tableIndex, hotBefore, column])).toEqual([
    [1, 0, 0],
    [0, 3, 8],
    [1, 3, 12],
  ]);
});

test("locates an id by its index, past features without ids", () => {
  const layout = layOutPlan(tables, [
    { table: "a", hotSize: 0 },
    { table: "b", hotSize: 3 },
    { table: "a", hotSize: 0 },
    { table: "b", hotSize: 1 },
    { table: "a", hotSize: 0 },
  ]);
  expect(locateId(layout, 2, 0)).toEqual({ feature: 1, example: 0, position: 0 });
  expect(locateId(layout, 2, 5)).toEqual({ feature: 1, example: 1, position: 2 });
  expect(locateId(layout, 2, 6)).toEqual({ feature: 3, example: 0, position: 0 });
  expect(locateId(layout, 2, 7)).toEqual({ feature: 3, example: 1, position: 0 });
});

test("refuses unknown tables and hot sizes that are no counts", () => {
  expect(() => layOutPlan(tables, [{ table: "c", hotSize: 1 }])).toThrow(
    'feature 0 names table "c", the store has a, b',
  );
  for (const hotSize of [-1, 0.5, Number.NaN, 1_000_001]) {
    expect(() => layOutPlan(tables, [{ table: "a", hotSize }])).toThrow(/has hot size .*, expected 0 … 1000000/);
  }
});

test("refuses ids and output that are too short by one, and takes exact ones", () => {
  const layout = layOutPlan(tables, [{ table: "a", hotSize: 3 }]);
  checkIds(layout, new Int32Array(6), 2);
  expect(() => checkIds(layout, new Int32Array(5), 2)).toThrow("ids has 5 elements, expected at least 6");
  expect(() => checkIds(layout, new Int32Array(6), -1)).toThrow("batch is -1");
  expect(() => checkIds(layout, [1, 2, 3] as unknown as Int32Array, 1)).toThrow(
    "ids are Array, expected an Int32Array",
  );
  checkOutput(layout, 2, new Float32Array(12), 1);
  expect(() => checkOutput(layout, 2, new Float32Array(11), 1)).toThrow(
    "output has 11 elements, expected at least 12 (rows 0 … 2 of 4 columns)",
  );
  expect(() => checkOutput(layout, 2, new Float32Array(12), 0.5)).toThrow("outputRow is 0.5");
  expect(() => checkOutput(layout, 2, new Float64Array(12) as unknown as Float32Array, 0)).toThrow(
    "output is Float64Array",
  );
});
