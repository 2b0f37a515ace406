import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeHuffman, encodeHuffman, huffmanLength } from "./huffman.ts";

function encode(text: string): Buffer {
  const target = Buffer.alloc(huffmanLength(text));
  expect(encodeHuffman(text, target, 0)).toBe(target.length);
  return target;
}

const decode = (hex: string): string | undefined => decodeHuffman(Buffer.from(hex, "hex"), 0, hex.length / 2);

// RFC 7541, appendices C.4 and C.6
test.each([
  ["www.example.com", "f1e3c2e5f23a6ba0ab90f4ff"],
  ["no-cache", "a8eb10649cbf"],
  ["custom-key", "25a849e95ba97d7f"],
  ["custom-value", "25a849e95bb8e8b4bf"],
  ["302", "6402"],
  ["private", "aec3771a4b"],
  ["Mon, 21 Oct 2013 20:13:21 GMT", "d07abe941054d444a8200595040b8166e082a62d1bff"],
  [
    "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
  ],
])("%j is %s, both ways", (text, hex) => {
  expect(encode(text).toString("hex")).toBe(hex);
  expect(decode(hex)).toBe(text);
});

test("any octets come back as they were", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (octets) => {
      const text = Buffer.from(octets).toString("latin1");
      const encoded = encode(text);
      expect(decodeHuffman(encoded, 0, encoded.length)).toBe(text);
    }),
  );
});

test("a string longer than a call can have arguments comes back as it was", () => {
  const text = "a\u00ff".repeat(100_000);
  const encoded = encode(text);
  expect(decodeHuffman(encoded, 0, encoded.length)).toBe(text);
});

test.each([
  ["EOS inside", "ffffffff"],
  ["a padding of eight ones", "1fff"],
  ["a padding that is not all ones", "18"],
  ["a code that is cut off", "fe"],
])("%s is refused", (_, hex) => {
  expect(decode(hex)).toBeUndefined();
});

test("nothing is the empty string", () => {
  expect(decode("")).toBe("");
});
