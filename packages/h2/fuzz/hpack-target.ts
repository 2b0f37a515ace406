import assert from "node:assert/strict";
import { HpackDecoder } from "../src/hpack-decoder.ts";
import { HpackEncoder, type HeaderField } from "../src/hpack-encoder.ts";
import { Http2Error } from "../src/http2-error.ts";
import type { Random } from "./random.ts";
import { ReferenceHpackDecoder } from "./reference-hpack.ts";

const names = [":path", ":method", "te", "x", "cookie", "content-type", "grpc-timeout", "a-rather-long-name"];
const values = ["", "a", "POST", "/", "trailers", "application/grpc+proto", "v".repeat(300), "\u00ff\u0000 ~"];
const TABLE_BYTES = 4096;

/** Blocks of one connection, as an encoder makes them. Each is preceded by its length, two octets. */
export function makeBlocks(random: Random): Buffer {
  const encoder = new HpackEncoder(random.pick([0, 64, 200, TABLE_BYTES]));
  const pieces: Buffer[] = [];
  for (let count = 1 + random.below(4); count > 0; count--) {
    if (random.once(4)) encoder.limitTable(random.pick([0, 100, TABLE_BYTES]));
    const fields = Array.from({ length: random.below(6) }, (): HeaderField => [
      random.pick(names),
      random.pick(values),
    ]);
    const block = encoder.encode(fields);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(block.length);
    pieces.push(length, block);
  }
  return Buffer.concat(pieces);
}

/** Decodes the blocks with both decoders, which must agree on each; what happened, in short. */
export function checkBlocks(input: Buffer): string {
  const decoder = new HpackDecoder({ maxTableBytes: TABLE_BYTES, maxHeaderListBytes: 1 << 24 });
  const reference = new ReferenceHpackDecoder(TABLE_BYTES);
  let story = "";
  for (let at = 0; at + 2 <= input.length;) {
    const end = Math.min(input.length, at + 2 + input.readUInt16BE(at));
    const block = input.subarray(at + 2, end);
    at = end;
    let expected: string[] | undefined;
    try {
      expected = reference.decode(block);
    } catch {
      expected = undefined;
    }
    try {
      const got = decoder.decode(block, 0, block.length);
      assert.ok(got !== undefined && expected !== undefined);
      assert.ok(got.flat.length === expected.length && got.flat.every((each, index) => each === expected[index]));
      assert.ok(decoder.tableBytes <= TABLE_BYTES);
      story += `${Math.min(got.flat.length, 8)} `;
    } catch (error) {
      if (!(error instanceof Http2Error)) throw error;
      assert.equal(error.code, "COMPRESSION_ERROR");
      assert.equal(expected, undefined);
      return story + error.message.replaceAll(/\d+/g, "n");
    }
  }
  return story;
}
