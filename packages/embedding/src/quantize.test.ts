import { describe, expect, test } from "vitest";
import { randomUint32 } from "../test/tables.ts";
import { openEmbeddingStore } from "./embedding-store.ts";
import { ErrorMeter, quantizeRows } from "./quantize.ts";
import type { TableDtype } from "./table.ts";

const DIM = 33;
const ROWS = 50;
const random = randomUint32(4);
const values = Float32Array.from({ length: ROWS * DIM }, () => random() / 2 ** 32 - 0.5);

/** The most an element of a row in ±0.5 may be off. */
const BOUNDS: Readonly<Record<TableDtype, number>> = {
  float32: 0,
  float16: 2 ** -13,
  bfloat16: 2 ** -10,
  int8: 1 / 255 / 2 + 1e-6,
  int4: 1 / 15 / 2 + 1e-3,
};

describe.each(Object.entries(BOUNDS) as [TableDtype, number][])("rows converted to %s", (dtype, bound) => {
  test("are off by no more than half a step, and by what is reported", async () => {
    const meter = new ErrorMeter();
    const data = quantizeRows(values, DIM, dtype, meter);
    const store = await openEmbeddingStore({ rows: { t: { dim: DIM, dtype, data } } }, { kernel: "reference" });
    const output = new Float32Array(ROWS * DIM);
    const ids = Int32Array.from({ length: ROWS }, (_, row) => row);
    store.plan([{ table: "t", hotSize: 1 }]).gather(ids, ROWS, output, 0);
    const differences = output.map((value, at) => Math.abs(value - (values[at] as number)));
    const max = differences.reduce((most, difference) => Math.max(most, difference), 0);
    const rms = Math.sqrt(differences.reduce((sum, difference) => sum + difference ** 2, 0) / differences.length);
    expect(max).toBeLessThanOrEqual(bound);
    expect(meter.error.max).toBeCloseTo(max, 6);
    expect(meter.error.rms).toBeCloseTo(rms, 6);
  });
});

test("int8 rows are laid out as FBGEMM's fused rows: codes, scale, bias", () => {
  const bytes = quantizeRows(Float32Array.of(-1, 254, 0, 100), 4, "int8", new ErrorMeter());
  expect(Array.from(bytes)).toEqual([0, 255, 1, 101, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf]);
});

test("int4 rows are laid out as FBGEMM's fused rows: two codes a byte, low half first, then float16 scale and bias", () => {
  const bytes = quantizeRows(Float32Array.of(-1, 14, 0), 3, "int4", new ErrorMeter());
  expect(Array.from(bytes)).toEqual([0xf0, 0x01, 0, 0x3c, 0, 0xbc]);
});

test("a row of equal values comes back exactly", () => {
  const meter = new ErrorMeter();
  quantizeRows(new Float32Array(8).fill(0.75), 8, "int8", meter);
  quantizeRows(new Float32Array(8).fill(0.75), 8, "int4", meter);
  expect(meter.error).toEqual({ max: 0, rms: 0 });
});
