import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bytesField, integerField, readFields, readIntegers, textField } from "./wire-format.ts";

describe("the wire format", () => {
  test("is protobuf's", () => {
    // The examples of protobuf's own description of its encoding.
    expect([...integerField(1, 150)]).toEqual([0x08, 0x96, 0x01]);
    expect([...textField(2, "testing")]).toEqual([0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
    expect([...bytesField(3, [integerField(1, 150)])]).toEqual([0x1a, 0x03, 0x08, 0x96, 0x01]);
    const packed = Uint8Array.of(0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05);
    expect(readIntegers(readFields(packed), 6)).toEqual([3, 270, 86_942]);
  });

  test("reads what it wrote, field by field", () => {
    const field = fc.record({
      number: fc.integer({ min: 1, max: 2 ** 29 - 1 }),
      content: fc.oneof(fc.nat(Number.MAX_SAFE_INTEGER), fc.uint8Array({ maxLength: 300 })),
    });
    fc.assert(
      fc.property(fc.array(field), (wanted) => {
        const pieces = wanted.map(({ number, content }) =>
          typeof content === "number" ? integerField(number, content) : bytesField(number, [content]),
        );
        const fields = readFields(Buffer.concat(pieces));
        expect(fields.map(({ raw }) => Buffer.from(raw))).toEqual(pieces.map((piece) => Buffer.from(piece)));
        for (const [i, { number, value, content }] of fields.entries()) {
          const { number: wantedNumber, content: wantedContent } = wanted[i]!;
          expect(number).toBe(wantedNumber);
          if (typeof wantedContent === "number") expect(value).toBe(wantedContent);
          else expect([...content]).toEqual([...wantedContent]);
        }
      }),
    );
  });

  test("keeps fixed-size fields as they are", () => {
    const bytes = Uint8Array.of(0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8);
    expect(readFields(bytes).map(({ number, raw }) => [number, raw.length])).toEqual([
      [1, 5],
      [2, 9],
    ]);
  });

  test.each([
    ["a number that does not end", [0x08, 0x96], "the file ends within a number"],
    [
      "a number that is too long",
      [0x08, ...Array.from({ length: 11 }, () => 0x80)],
      "a number of more than 10 bytes at 11",
    ],
    ["a field longer than the file", [0x12, 0x07, 0x74], "field 2 at 0 is longer than the file"],
    ["a wire type that is not in use", [0x0b], "wire type 3 at 0"],
  ])("refuses %s", (_case, bytes, message) => {
    expect(() => readFields(Uint8Array.from(bytes))).toThrow(new RangeError(message));
  });
});
