import { assert, property, uint8Array } from "fast-check";
import { expect, test } from "vitest";
import { npyBytes } from "../test/tables.ts";
import { EmbeddingError } from "./embedding-error.ts";
import { parseNpyHeader } from "./npy.ts";

const parse = (dict: string, version = 1) => parseNpyHeader(npyBytes(dict, new Uint8Array(8), version), "t.npy");

test("reads headers of all versions as NumPy writes them", () => {
  for (const version of [1, 2, 3]) {
    expect(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", version)).toEqual({
      descr: "<f4",
      shape: [2, 1],
      offset: 128,
    });
  }
  expect(parse("{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }").shape).toEqual([8]);
});

test.each([
  ["{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", /Fortran order/],
  ["{'descr': '<f4', 'shape': (2, 1), }", /expected descr, fortran_order and shape/],
  ["{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 1), }", /expected descr/],
  ["{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 1), }", /too large/],
])("refuses %s", (dict, message) => {
  expect(() => parse(dict)).toThrow(message);
});

test("refuses other files, other versions and headers that are cut off", () => {
  const bytes = npyBytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", new Uint8Array(8), 1);
  expect(() => parseNpyHeader(bytes.subarray(1), "t")).toThrow("t: is not a .npy file");
  expect(() => parseNpyHeader(bytes.subarray(0, 100), "t")).toThrow("is cut off");
  expect(() => parseNpyHeader(bytes.with(6, 4), "t")).toThrow("format version 4");
});

test("answers any bytes with a header or an EmbeddingError", () => {
  const start = npyBytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", new Uint8Array(0), 1);
  const isHandled = (noise: Uint8Array): boolean => {
    const bytes = start.slice();
    bytes.set(noise, 6);
    try {
      return parseNpyHeader(bytes, "t").shape.every((size) => size >= 0);
    } catch (error) {
      return error instanceof EmbeddingError;
    }
  };
  assert(property(uint8Array({ maxLength: 100 }), isHandled), { seed: 1, numRuns: 500 });
});
