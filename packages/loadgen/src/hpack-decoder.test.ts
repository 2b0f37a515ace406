import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HpackDecoder } from "./hpack-decoder.ts";
import { encodeHeaderBlock, encodeInteger } from "./hpack-encoder.ts";
import { Http2Error } from "./http2-error.ts";
import { STATIC_TABLE } from "./hpack-static-table.ts";

type Field = readonly [name: string, value: string];

function decode(decoder: HpackDecoder, hex: string): Field[] {
  const fields: Field[] = [];
  const block = Buffer.from(hex.replaceAll(/\s/g, ""), "hex");
  // In the middle of other bytes, as in a read.
  const padded = Buffer.concat([Buffer.from([0xff]), block, Buffer.from([0x82, 0x82])]);
  decoder.decode(padded, 1, 1 + block.length, (name, value) => fields.push([name, value]));
  return fields;
}

const get = (authority: Field[], path: string, scheme: string): Field[] => [
  [":method", "GET"],
  [":scheme", scheme],
  [":path", path],
  [":authority", "www.example.com"],
  ...authority,
];

const REQUESTS: Field[][] = [
  get([], "/", "http"),
  get([["cache-control", "no-cache"]], "/", "http"),
  get([["custom-key", "custom-value"]], "/index.html", "https"),
];
const REQUEST_TABLE_BYTES = [57, 110, 164];

const response = (status: string, second: string, more: Field[] = []): Field[] => [
  [":status", status],
  ["cache-control", "private"],
  ["date", `Mon, 21 Oct 2013 20:13:${second} GMT`],
  ["location", "https://www.example.com"],
  ...more,
];
const RESPONSES: Field[][] = [
  response("302", "21"),
  response("307", "21"),
  response("200", "22", [
    ["content-encoding", "gzip"],
    ["set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"],
  ]),
];
const RESPONSE_TABLE_BYTES = [222, 222, 215];

describe("HpackDecoder on the examples of RFC 7541, appendix C", () => {
  test.each([
    ["C.2.1", "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ["custom-key", "custom-header"], 55],
    ["C.2.2", "040c 2f73 616d 706c 652f 7061 7468", [":path", "/sample/path"], 0],
    ["C.2.3", "1008 7061 7373 776f 7264 0673 6563 7265 74", ["password", "secret"], 0],
    ["C.2.4", "82", [":method", "GET"], 0],
  ])("%s: one field", (_, hex, field, tableBytes) => {
    const decoder = new HpackDecoder();
    expect(decode(decoder, hex)).toEqual([field]);
    expect(decoder.tableBytes).toBe(tableBytes);
  });

  test.each([
    [
      "C.3: requests without Huffman coding",
      [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
      ],
    ],
    [
      "C.4: requests with Huffman coding",
      [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
      ],
    ],
  ])("%s", (_, blocks) => {
    const decoder = new HpackDecoder();
    for (const [i, block] of blocks.entries()) {
      expect(decode(decoder, block)).toEqual(REQUESTS[i]);
      expect(decoder.tableBytes).toBe(REQUEST_TABLE_BYTES[i]);
    }
    expect(decoder.table).toEqual([
      ["custom-key", "custom-value"],
      ["cache-control", "no-cache"],
      [":authority", "www.example.com"],
    ]);
  });

  test.each([
    [
      "C.5: responses without Huffman coding, with evictions",
      [
        `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
        "4803 3330 37c1 c0bf",
        `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
         2076 6572 7369 6f6e 3d31`,
      ],
    ],
    [
      "C.6: responses with Huffman coding, with evictions",
      [
        `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
         8f0b 97c8 e9ae 82ae 43d3`,
        "4883 640e ffc1 c0bf",
        `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07`,
      ],
    ],
  ])("%s", (_, blocks) => {
    const decoder = new HpackDecoder(256);
    for (const [i, block] of blocks.entries()) {
      expect(decode(decoder, block)).toEqual(RESPONSES[i]);
      expect(decoder.tableBytes).toBe(RESPONSE_TABLE_BYTES[i]);
    }
  });
});

describe("HpackDecoder", () => {
  test("knows all 61 entries of the static table", () => {
    expect(STATIC_TABLE).toHaveLength(61);
    const block = Buffer.from(STATIC_TABLE.map((_, i) => 0x80 | (i + 1))).toString("hex");
    expect(decode(new HpackDecoder(), block)).toEqual(STATIC_TABLE);
  });

  test.each([
    ["index 0", "80", "index 0"],
    ["an index past the table", "be", "index 62, the table has 0 entries"],
    ["a name index past the table", "7f00 00", "index 63, the table has 0 entries"],
    ["a table size update after a field", "82 20", "a table size update after a header field"],
    ["a table size above the limit", "3fe2 1f", "table size 4097, the limit is 4096"],
    ["an integer that is cut off", "ff", "an integer is cut off"],
    ["an integer that goes on", "ff80 8080 8080 8080 00", "an integer is too large"],
    ["an integer that is too large", "ffff ffff ff0f", "an integer is too large"],
    ["a string that is missing", "40", "a string is missing"],
    ["a string that is cut off", "4003 6162", "a string is cut off"],
    ["a value that is missing", "4001 61", "a string is missing"],
  ])("refuses %s", (_, hex, message) => {
    expect(() => decode(new HpackDecoder(), hex)).toThrow(`COMPRESSION_ERROR: header block: ${message}`);
  });

  test.each([
    ["padding that is not ones", "4001 6181 18", "wrong padding"],
    ["padding of a whole byte", "4001 6182 1fff", "wrong padding"],
    ["the end-of-string code", "4001 6184 ffff ffff", "end-of-string code"],
  ])("refuses a Huffman string with %s", (_, hex, message) => {
    expect(() => decode(new HpackDecoder(), hex)).toThrow(message);
  });

  test("keeps no entry that is larger than the table, and drops all others for it", () => {
    const decoder = new HpackDecoder(64);
    decode(decoder, "4001 6101 62");
    expect(decoder.table).toEqual([["a", "b"]]);
    const large = Buffer.from("x".repeat(40)).toString("hex");
    expect(decode(decoder, `4001 6128 ${large}`)).toEqual([["a", "x".repeat(40)]]);
    expect([decoder.table, decoder.tableBytes]).toEqual([[], 0]);
  });

  test("stays right over thousands of insertions and evictions", () => {
    const decoder = new HpackDecoder(1000);
    for (let i = 0; i < 5000; i++) {
      const value = Buffer.from(`v${i}`).toString("hex");
      decode(decoder, `4001 6e${(value.length / 2).toString(16).padStart(2, "0")} ${value}`);
    }
    // An entry has 1 + 5 + 32 bytes: 26 of them fit.
    expect(decoder.table).toEqual(Array.from({ length: 26 }, (_, i) => ["n", `v${4999 - i}`]));
    expect(decode(decoder, "be")).toEqual([["n", "v4999"]]);
  });

  test("reads what the encoder writes", () => {
    const latin1 = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
    const field = fc.oneof(fc.tuple(latin1, latin1), fc.constantFrom(...STATIC_TABLE));
    fc.assert(
      fc.property(fc.array(field), (fields) => {
        const decoder = new HpackDecoder();
        expect(decode(decoder, encodeHeaderBlock(fields).toString("hex"))).toEqual(fields);
        expect(decoder.table).toEqual([]);
      }),
    );
  });

  test("fails with nothing but Http2Error on any bytes, and its table stays within its limit", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 80 }), { maxLength: 5 }), (blocks) => {
        const decoder = new HpackDecoder(200);
        try {
          for (const block of blocks) decode(decoder, Buffer.from(block).toString("hex"));
        } catch (error) {
          expect(error).toBeInstanceOf(Http2Error);
        }
        expect(decoder.tableBytes).toBeLessThanOrEqual(200);
        const sum = decoder.table.reduce((bytes, [name, value]) => bytes + name.length + value.length + 32, 0);
        expect(decoder.tableBytes).toBe(sum);
      }),
      { numRuns: 500 },
    );
  });
});

describe("encodeInteger, on the examples of RFC 7541, C.1", () => {
  test.each([
    [10, 5, "0a"],
    [1337, 5, "1f9a0a"],
    [42, 8, "2a"],
  ])("%d with a prefix of %d bits", (value, prefixBits, hex) => {
    expect(encodeInteger(value, prefixBits, 0).toString("hex")).toBe(hex);
  });
});
