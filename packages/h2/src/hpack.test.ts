import fc from "fast-check";
import { expect, test } from "vitest";
import { HpackDecoder } from "./hpack-decoder.ts";
import { encodeHeaderBlock, HpackEncoder, type HeaderField } from "./hpack-encoder.ts";
import { Http2Error } from "./http2-error.ts";

function decodeHex(decoder: HpackDecoder, hex: string): string[] {
  const bytes = Buffer.from(hex.replaceAll(" ", ""), "hex");
  return [...(decoder.decode(bytes, 0, bytes.length) ?? [])].map(([name, value]) => `${name}: ${value}`);
}

const firstRequest = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
const thirdRequest = [
  ":method: GET",
  ":scheme: https",
  ":path: /index.html",
  ":authority: www.example.com",
  "custom-key: custom-value",
];

// RFC 7541, appendix C.3 (without Huffman code) and C.4 (with it)
test.each([
  [
    "C.3",
    [
      "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
      "8286 84be 5808 6e6f 2d63 6163 6865",
      "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ],
  ],
  [
    "C.4",
    [
      "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
      "8286 84be 5886 a8eb 1064 9cbf",
      "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ],
  ],
])("the requests of RFC 7541 %s are decoded", (_, blocks) => {
  const decoder = new HpackDecoder();
  const [first, second, third] = blocks.map((hex) => decodeHex(decoder, hex));
  expect(first).toEqual(firstRequest);
  expect(second).toEqual([...firstRequest, "cache-control: no-cache"]);
  expect(third).toEqual(thirdRequest);
  expect(decoder.tableBytes).toBe(164);
});

// RFC 7541, appendix C.5: a table of 256 bytes, so that entries are evicted
test("the responses of RFC 7541 C.5 are decoded, with eviction", () => {
  const decoder = new HpackDecoder({ maxTableBytes: 256 });
  const date = "date: Mon, 21 Oct 2013 20:13:21 GMT";
  const location = "location: https://www.example.com";
  expect(
    decodeHex(
      decoder,
      "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    ),
  ).toEqual([":status: 302", "cache-control: private", date, location]);
  expect(decoder.tableBytes).toBe(222);
  expect(decodeHex(decoder, "4803 3330 37c1 c0bf")).toEqual([":status: 307", "cache-control: private", date, location]);
  expect(decoder.tableBytes).toBe(222);
  expect(
    decodeHex(
      decoder,
      "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ),
  ).toEqual([
    ":status: 200",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:22 GMT",
    location,
    "content-encoding: gzip",
    "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
  ]);
  expect(decoder.tableBytes).toBe(215);
});

test("a block that repeats is one object, until the table changes what its bytes mean", () => {
  const decoder = new HpackDecoder();
  const decode = (hex: string) => decoder.decode(Buffer.from(hex, "hex"), 0, hex.length / 2);
  decode("4001610162"); // a: b enters the table
  const first = decode("be");
  expect(first?.flat).toEqual(["a", "b"]);
  expect(decode("be")).toBe(first);
  decode("4001630164"); // c: d
  expect(decode("be")?.flat).toEqual(["c", "d"]);
});

test.each([
  ["index 0", "80"],
  ["an index outside of the tables", "ff00"],
  ["an integer without end", "ffffffffffffff"],
  ["an integer that is cut off", "ff"],
  ["a string that is cut off", "400561"],
  ["a missing value", "4101"],
  ["a table larger than announced", "3fe21f"],
  ["a table size update after a field", "8220"],
  ["a string that is no Huffman code", "0085ffffffffff00"],
])("%s ends the connection with COMPRESSION_ERROR", (_, hex) => {
  const decoder = new HpackDecoder();
  expect(() => decoder.decode(Buffer.from(hex, "hex"), 0, hex.length / 2)).toThrow(
    expect.objectContaining({ code: "COMPRESSION_ERROR", scope: "connection" }),
  );
});

test("a list over the limit is given up, and the table stays in step", () => {
  const encoder = new HpackEncoder();
  const decoder = new HpackDecoder({ maxHeaderListBytes: 1000 });
  const big = encoder.encode([
    ["a", "b"],
    ["big", "x".repeat(1000)],
  ]);
  expect(decoder.decode(big, 0, big.length)).toBeUndefined();
  const next = encoder.encode([["a", "b"]]);
  expect(next.length).toBe(1);
  expect(decoder.decode(next, 0, 1)?.flat).toEqual(["a", "b"]);
});

test("a block of many references to one large entry costs no memory beyond the limit", () => {
  const decoder = new HpackDecoder({ maxHeaderListBytes: 16_384 });
  const entry = encodeLiteral("n", "v".repeat(4000));
  decoder.decode(entry, 0, entry.length);
  const bomb = Buffer.alloc(16_000, 0xbe);
  expect(decoder.decode(bomb, 0, bomb.length)).toBeUndefined();
});

function encodeLiteral(name: string, value: string): Buffer {
  const length = value.length - 127;
  return Buffer.concat([
    Buffer.from([0x40, name.length]),
    Buffer.from(name),
    Buffer.from([0x7f, (length & 0x7f) | 0x80, length >> 7]),
    Buffer.from(value),
  ]);
}

const octets = (minLength: number) =>
  fc.uint8Array({ minLength, maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString("latin1"));
const field: fc.Arbitrary<HeaderField> = fc.oneof(
  fc.constantFrom<HeaderField>(
    [":method", "POST"],
    [":status", "200"],
    ["te", "trailers"],
    ["cookie", "secret"],
    ["grpc-timeout", "1S"],
  ),
  fc.tuple(octets(1), octets(0)),
  fc.tuple(fc.constantFrom("a", "b", "c"), fc.constantFrom("", "1", "2")),
);

test("what is encoded is decoded, through any changes of the table's size", () => {
  const step = fc.oneof(fc.array(field, { maxLength: 8 }), fc.integer({ min: 0, max: 8192 }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.integer({ min: 0, max: 8192 }), (steps, wanted) => {
      const encoder = new HpackEncoder(wanted);
      const decoder = new HpackDecoder({ maxTableBytes: 8192 });
      for (const each of steps) {
        if (typeof each === "number") {
          encoder.limitTable(each);
        } else {
          const block = encoder.encode(each);
          expect(decoder.decode(block, 0, block.length)?.flat).toEqual(each.flat());
        }
      }
    }),
  );
});

test("a kept block means the same at any time", () => {
  const block = encodeHeaderBlock([
    [":status", "200"],
    ["content-type", "application/grpc"],
  ]);
  const decoder = new HpackDecoder();
  for (let time = 0; time < 3; time++) {
    expect(decoder.decode(block, 0, block.length)?.flat).toEqual([
      ":status",
      "200",
      "content-type",
      "application/grpc",
    ]);
    decodeHex(decoder, "4001610162");
  }
});

test("random bytes decode, or fail with COMPRESSION_ERROR", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 5 }), (blocks) => {
      const decoder = new HpackDecoder();
      for (const block of blocks) {
        const bytes = Buffer.from(block);
        try {
          decoder.decode(bytes, 0, bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(Http2Error);
          expect((error as Http2Error).code).toBe("COMPRESSION_ERROR");
          return;
        }
      }
    }),
    { numRuns: 5000 },
  );
});
