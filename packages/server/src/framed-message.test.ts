import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FramedMessage } from "./framed-message.ts";

function frame(message: Uint8Array, flags = 0): Buffer {
  const header = Buffer.alloc(5);
  header[0] = flags;
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}

test("a message is the same however its frame is cut into chunks, compressed or not", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 100 }),
      fc.array(fc.nat(110), { maxLength: 6 }),
      fc.boolean(),
      async (message, cuts, compressed) => {
        const framed = compressed ? frame(gzipSync(message), 1) : frame(message);
        const places = [0, ...cuts.map((cut) => Math.min(cut, framed.length)).sort((a, b) => a - b), framed.length];
        const reader = new FramedMessage(200);
        for (let index = 1; index < places.length; index++)
          reader.push(framed.subarray(places[index - 1], places[index]));
        expect(Buffer.from(await reader.finish("gzip")).equals(Buffer.from(message))).toBe(true);
      },
    ),
    { seed: 7 },
  );
});

test("a message in one chunk is not copied", () => {
  const framed = frame(Buffer.from("abc"));
  const reader = new FramedMessage(3);
  reader.push(framed);
  expect((reader.finish("identity") as Uint8Array).buffer).toBe(framed.buffer);
});

test("the limit is of the message, exactly", () => {
  const reader = new FramedMessage(3);
  expect(() => reader.push(frame(Buffer.from("abcd")).subarray(0, 5))).toThrow(
    "the request message is over the limit of 3 bytes (--max-message-bytes): got 4 bytes",
  );
});
