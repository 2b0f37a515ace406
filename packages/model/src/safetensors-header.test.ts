import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ModelError } from "./model-error.ts";
import { headerBytes, layoutSafetensors, parseSafetensorsHeader } from "./safetensors-header.ts";

/** The first bytes of a file: the size of the JSON, then the JSON. */
function headerOf(json: string | Uint8Array, size?: bigint): Uint8Array {
  const bytes = typeof json === "string" ? new TextEncoder().encode(json) : json;
  const header = new Uint8Array(8 + bytes.length);
  new DataView(header.buffer).setBigUint64(0, size ?? BigInt(bytes.length), true);
  header.set(bytes, 8);
  return header;
}

const f32 = (shape: readonly number[], begin: number, end: number): object => ({
  dtype: "F32",
  shape,
  data_offsets: [begin, end],
});

function parse(entries: object, dataBytes: number): unknown {
  const header = headerOf(JSON.stringify(entries));
  return parseSafetensorsHeader(header, header.length + dataBytes);
}

describe("layoutSafetensors", () => {
  test("aligns every tensor in the file, fills gaps with U8 tensors, and ends the header in spaces", () => {
    const layout = layoutSafetensors(
      [
        { name: "a", shape: [3, 5] },
        { name: "b", shape: [1024] },
        { name: "c", shape: [1] },
      ],
      4096,
    );
    const json = JSON.stringify({
      a: f32([3, 5], 0, 60),
      __padding_0: { dtype: "U8", shape: [4036], data_offsets: [60, 4096] },
      b: f32([1024], 4096, 8192),
      c: f32([1], 8192, 8196),
    });
    expect(new TextDecoder().decode(layout.header.subarray(8))).toBe(json.padEnd(4088, " "));
    expect(new DataView(layout.header.buffer).getBigUint64(0, true)).toBe(4088n);
    expect(layout.tensors.map(({ name, offset, bytes }) => [name, offset, bytes])).toEqual([
      ["a", 4096, 60],
      ["b", 8192, 4096],
      ["c", 12_288, 4],
    ]);
    expect([layout.dataOffset, layout.fileBytes]).toEqual([4096, 12_292]);
  });

  test("parses back as it was laid out, for any tensors and alignment", () => {
    const shape = fc.array(fc.nat({ max: 9 }), { maxLength: 4 });
    const tensors = fc.uniqueArray(fc.record({ name: fc.string({ maxLength: 12 }), shape }), {
      selector: ({ name }) => name,
      maxLength: 12,
    });
    // Names the format or the padding owns, and one that JavaScript's objects treat in a way of their own.
    const named = tensors.filter((list) => list.every(({ name }) => !name.startsWith("__")));
    fc.assert(
      fc.property(named, fc.constantFrom(4, 64, 4096), (list, alignBytes) => {
        const { header, ...layout } = layoutSafetensors(list, alignBytes);
        const parsed = parseSafetensorsHeader(header, layout.fileBytes);
        const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
        expect([...parsed.tensors].sort(byName)).toEqual([...layout.tensors].sort(byName));
        expect([parsed.dataOffset, parsed.fileBytes]).toEqual([layout.dataOffset, layout.fileBytes]);
        for (const { offset } of layout.tensors) expect(offset % alignBytes).toBe(0);
      }),
    );
  });
});

describe("headerBytes", () => {
  test.each<[string, Uint8Array, number, string]>([
    ["an empty file", new Uint8Array(0), 0, "a file has at least 8 bytes, this one has 0"],
    ["a file of 7 bytes", new Uint8Array(7), 7, "a file has at least 8 bytes, this one has 7"],
    ["a header of no bytes", headerOf("", 0n), 8, 'the header is to have 0 bytes, the smallest is "{}"'],
    ["a header past the end", headerOf("{}", 3n), 10, "the header is to end at byte 11, the file has 10 bytes"],
    [
      "a header larger than the format allows",
      headerOf("{}", 100_000_001n),
      2 ** 40,
      "the header is to have 100000001 bytes, at most 100000000 are allowed",
    ],
    [
      "a header of 2⁶⁴ - 1 bytes",
      headerOf("{}", 2n ** 64n - 1n),
      10,
      "the header is to have 18446744073709551615 bytes, at most 100000000 are allowed",
    ],
  ])("refuses %s", (_name, bytes, fileBytes, message) => {
    expect(() => headerBytes(bytes.subarray(0, 8), fileBytes)).toThrow(message);
  });

  test("is the size of the JSON and the 8 bytes that say it", () => {
    expect(headerBytes(headerOf("{}"), 10)).toBe(10);
    expect(headerBytes(headerOf("{}", 100_000_000n), 2 ** 40)).toBe(100_000_008);
  });
});

describe("parseSafetensorsHeader", () => {
  test("leaves out metadata and padding, and gives positions in the file, in their order", () => {
    const entries = {
      __metadata__: { format: "pt" },
      b: { dtype: "BF16", shape: [2, 2], data_offsets: [12, 20] },
      a: f32([], 0, 4),
      __padding_0: { dtype: "U8", shape: [8], data_offsets: [4, 12] },
      empty: f32([0, 7], 4, 4),
    };
    const header = headerOf(JSON.stringify(entries));
    const parsed = parseSafetensorsHeader(header, header.length + 20);
    const at = header.length;
    expect(parsed.tensors).toEqual([
      { name: "a", dtype: "F32", shape: [], offset: at, bytes: 4 },
      { name: "empty", dtype: "F32", shape: [0, 7], offset: at + 4, bytes: 0 },
      { name: "b", dtype: "BF16", shape: [2, 2], offset: at + 12, bytes: 8 },
    ]);
  });

  test("accepts a file without tensors", () => {
    expect(parse({}, 0)).toMatchObject({ tensors: [], dataOffset: 10, fileBytes: 10 });
  });

  test.each<[string, object, number, string]>([
    [
      "a hole at the start",
      { a: f32([1], 4, 8) },
      8,
      'tensor "a" starts at byte 4 of the data and leaves a hole before it, expected 0',
    ],
    [
      "a hole between",
      { a: f32([1], 0, 4), b: f32([1], 8, 12) },
      12,
      'tensor "b" starts at byte 8 of the data and leaves a hole before it, expected 4',
    ],
    [
      "an overlap",
      { a: f32([2], 0, 8), b: f32([2], 4, 12) },
      12,
      'tensor "b" starts at byte 4 of the data and overlaps the one before it, expected 8',
    ],
    [
      "two tensors of the same bytes",
      { a: f32([1], 0, 4), b: f32([1], 0, 4) },
      4,
      'tensor "b" starts at byte 0 of the data and overlaps the one before it, expected 4',
    ],
    [
      "data missing at the end",
      { a: f32([2], 0, 8) },
      7,
      "the tensors have 8 bytes, the file holds 7 after its header",
    ],
    ["data left over", { a: f32([2], 0, 8) }, 9, "the tensors have 8 bytes, the file holds 9 after its header"],
    ["fewer bytes than the shape", { a: f32([3], 0, 8) }, 8, 'tensor "a": data_offsets span 8 bytes, F32 [3] has 12'],
    [
      "a shape whose product overflows",
      { a: f32([2 ** 40, 2 ** 40], 0, 0) },
      0,
      `tensor "a": data_offsets span 0 bytes, F32 [1099511627776, 1099511627776] has ${2 ** 82}`,
    ],
    ["offsets in reverse", { a: f32([1], 4, 0) }, 4, 'tensor "a": data_offsets span -4 bytes, F32 [1] has 4'],
    ["negative offsets", { a: f32([1], -4, 0) }, 0, 'tensor "a": expected data_offsets [begin, end], got [-4,0]'],
    [
      "three offsets",
      { a: { dtype: "F32", shape: [1], data_offsets: [0, 4, 8] } },
      8,
      'tensor "a": expected data_offsets [begin, end], got [0,4,8]',
    ],
    [
      "no offsets",
      { a: { dtype: "F32", shape: [1] } },
      4,
      'tensor "a": expected data_offsets [begin, end], got undefined',
    ],
    [
      "a fractional size",
      { a: { dtype: "F32", shape: [1.5], data_offsets: [0, 6] } },
      6,
      'tensor "a": expected a shape of non-negative integers, got [1.5]',
    ],
    [
      "no shape",
      { a: { dtype: "F32", data_offsets: [0, 4] } },
      4,
      'tensor "a": expected a shape of non-negative integers, got undefined',
    ],
    [
      "an unknown dtype",
      { a: { dtype: "F31", shape: [1], data_offsets: [0, 4] } },
      4,
      'tensor "a": unknown dtype "F31"',
    ],
    [
      "a dtype that is a property of every object",
      { a: { dtype: "constructor", shape: [1], data_offsets: [0, 4] } },
      4,
      'tensor "a": unknown dtype "constructor"',
    ],
    ["a tensor that is no object", { a: null }, 0, 'tensor "a": expected an object'],
  ])("refuses %s", (_name, entries, dataBytes, message) => {
    expect(() => parse(entries, dataBytes)).toThrow(message);
  });

  test.each<[string, string | Uint8Array, RegExp]>([
    ["text that is no JSON", "{,}", /^the header is not JSON: SyntaxError/],
    ["bytes that are no UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), /^the header is not JSON: TypeError/],
    ["a list", "[]", /^the header is JSON, but not an object$/],
    ["null", "null", /^the header is JSON, but not an object$/],
    ["a byte order mark", "\uFEFF{}", /^the header is not JSON: SyntaxError/],
  ])("refuses %s", (_name, json, message) => {
    const header = headerOf(json);
    expect(() => parseSafetensorsHeader(header, header.length)).toThrow(message);
  });

  test("a header cut short is refused", () => {
    const header = headerOf("{}  ");
    expect(() => parseSafetensorsHeader(header.subarray(0, 11), 12)).toThrow("the header has 12 bytes, got 11 of them");
  });

  test("whatever the bytes are, the outcome is an error of ours or tensors that cover the data", () => {
    const { header, fileBytes } = layoutSafetensors(
      [
        { name: "a", shape: [2, 3] },
        { name: "b", shape: [1] },
      ],
      64,
    );
    const changes = fc.array(fc.tuple(fc.nat({ max: header.length - 1 }), fc.nat({ max: 255 })), { maxLength: 4 });
    const mutated = fc.tuple(changes, fc.nat({ max: header.length })).map(([list, cut]) => {
      const bytes = header.slice();
      for (const [at, value] of list) bytes[at] = value;
      return list.length === 0 ? bytes.subarray(0, cut) : bytes;
    });
    const anyJson = fc.json().map((json) => headerOf(json));
    const anyBytes = fc.uint8Array({ maxLength: 64 });
    fc.assert(
      fc.property(
        fc.oneof(mutated, anyJson, anyBytes),
        fc.constantFrom(0, fileBytes - header.length),
        (bytes, dataBytes) => {
          const size = bytes.length + dataBytes;
          try {
            const { tensors, dataOffset } = parseSafetensorsHeader(bytes, size);
            for (const { offset, bytes: length } of tensors) {
              expect(offset).toBeGreaterThanOrEqual(dataOffset);
              expect(offset + length).toBeLessThanOrEqual(size);
            }
          } catch (error) {
            expect(error).toBeInstanceOf(ModelError);
            expect((error as ModelError).code).toBe("invalid_safetensors");
          }
        },
      ),
      { numRuns: 3000 },
    );
  });
});
