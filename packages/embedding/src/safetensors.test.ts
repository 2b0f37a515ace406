import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { anything, array, assert, constantFrom, dictionary, jsonValue, nat, oneof, property, record } from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { float32Tensor, safetensorsBytes } from "../test/tables.ts";
import { EmbeddingError } from "./embedding-error.ts";
import { parseSafetensorsHeader, readSafetensorsHeader } from "./safetensors.ts";

const encode = (text: string) => new TextEncoder().encode(text);

describe("parseSafetensorsHeader", () => {
  const parse = (header: unknown, dataBytes: number) => {
    const json = encode(JSON.stringify(header));
    return parseSafetensorsHeader(json, 8 + json.byteLength + dataBytes, "t.safetensors");
  };
  const tensor = (begin: number, end: number, shape = [(end - begin) / 4]) => ({
    dtype: "F32",
    shape,
    data_offsets: [begin, end],
  });

  test("gives offsets from the start of the file, in file order, and metadata", () => {
    const json = encode(JSON.stringify({ b: tensor(8, 24, [2, 2]), __metadata__: { k: "v" }, a: tensor(0, 8) }));
    const start = 8 + json.byteLength;
    expect(parseSafetensorsHeader(json, start + 24, "x")).toEqual({
      entries: [
        { name: "a", dtype: "F32", shape: [2], offset: start, byteLength: 8 },
        { name: "b", dtype: "F32", shape: [2, 2], offset: start + 8, byteLength: 16 },
      ],
      metadata: { k: "v" },
    });
  });

  test.each([
    ["a hole", { a: tensor(4, 8) }, 8, /tensor "a" leaves a hole: starts at offset \d+, expected \d+/],
    ["an overlap", { a: tensor(0, 8), b: tensor(4, 12) }, 12, /tensor "b" overlaps the tensor before it/],
    [
      "a size that does not fit the shape",
      { a: tensor(0, 8, [3]) },
      8,
      /shape \[3\] needs 12 bytes, data_offsets give 8/,
    ],
    [
      "a truncated file",
      { a: tensor(0, 8), b: tensor(8, 16) },
      12,
      /is truncated: tensor "b" ends at offset \d+, file at/,
    ],
    ["bytes after the end", { a: tensor(0, 8) }, 9, /has 1 bytes after its last tensor/],
    ["an unknown dtype", { a: { ...tensor(0, 8), dtype: "constructor" } }, 8, /unknown dtype "constructor"/],
    ["a negative size", { a: tensor(0, 8, [-2, -1]) }, 8, /shape \[-2,-1\], expected a list of sizes/],
    ["a fractional size", { a: tensor(0, 8, [0.5, 4]) }, 8, /expected a list of sizes/],
    [
      "three offsets",
      { a: { ...tensor(0, 8), data_offsets: [0, 4, 8] } },
      8,
      /data_offsets \[0,4,8\], expected \[begin, end\]/,
    ],
    ["a tensor that is no object", { a: 3 }, 0, /tensor "a" is not a JSON object/],
    ["no dtype", { a: { shape: [], data_offsets: [0, 0] } }, 0, /tensor "a" at offset \d+ has no dtype/],
    ["metadata that is no object", { __metadata__: [] }, 0, /__metadata__ that is not a JSON object/],
    ["metadata that is no text", { __metadata__: { k: 1 } }, 0, /__metadata__ "k" that is not a string/],
    ["a list", [], 0, /not a JSON object/],
  ])("refuses %s", (_, header, dataBytes, message) => {
    expect(() => parse(header, dataBytes)).toThrow(message);
    expect(() => parse(header, dataBytes)).toThrow(EmbeddingError);
  });

  test("refuses text that is not JSON, or not UTF-8", () => {
    expect(() => parseSafetensorsHeader(encode("{"), 9, "x")).toThrow(/is not JSON/);
    expect(() => parseSafetensorsHeader(Uint8Array.of(0xff), 9, "x")).toThrow(/is not JSON/);
  });

  test("answers any JSON with tensors inside the file or an EmbeddingError", () => {
    const offsets = array(oneof(nat(40), anything()), { maxLength: 3 });
    const dtype = constantFrom("F32", "U8", "", 1);
    const entry = oneof(record({ dtype, shape: offsets, data_offsets: offsets }, { requiredKeys: [] }), jsonValue());
    const header = dictionary(constantFrom("a", "b", "__metadata__", "__proto__"), entry);
    const isInsideOrRefused = (value: unknown, dataBytes: number): boolean => {
      const fileBytes = 8 + encode(JSON.stringify(value)).byteLength + dataBytes;
      try {
        return parse(value, dataBytes).entries.every(({ offset, byteLength }) => offset + byteLength <= fileBytes);
      } catch (error) {
        return error instanceof EmbeddingError;
      }
    };
    assert(property(header, nat(64), isInsideOrRefused), { seed: 1, numRuns: 500 });
  });
});

describe("readSafetensorsHeader", () => {
  let dir = "";
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "safetensors-"));
  });
  afterAll(() => rm(dir, { recursive: true }));

  async function read(bytes: Uint8Array) {
    const path = join(dir, "t.safetensors");
    await writeFile(path, bytes);
    const file = await open(path);
    try {
      return await readSafetensorsHeader(file, path);
    } finally {
      await file.close();
    }
  }

  test("reads a file", async () => {
    const { entries } = await read(safetensorsBytes({ t: float32Tensor(2, 3, [1, 2, 3, 4, 5, 6]) }));
    expect(entries.map(({ name, shape, byteLength }) => ({ name, shape, byteLength }))).toEqual([
      { name: "t", shape: [2, 3], byteLength: 24 },
    ]);
  });

  test("refuses every truncation of a file", async () => {
    const whole = safetensorsBytes({ t: float32Tensor(1, 2, [1, 2]) });
    for (let length = 0; length < whole.byteLength; length++) {
      await expect(read(whole.subarray(0, length)), `${length} bytes`).rejects.toMatchObject({ code: "invalid_file" });
    }
  });

  test("refuses a header length beyond the limit before reading it", async () => {
    await expect(read(new Uint8Array(16).fill(0xff, 0, 8))).rejects.toThrow(
      /announces a header of 1844\d+ bytes at offset 0/,
    );
  });
});
