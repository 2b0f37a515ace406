import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { BodyBudget, largestBodyBytes } from "./body-budget.ts";
import { decompressGzip, FramedMessage } from "./framed-message.ts";

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
        const reader = new FramedMessage(200, new BodyBudget(Infinity).hold());
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
  const reader = new FramedMessage(3, new BodyBudget(Infinity).hold());
  reader.push(framed);
  expect((reader.finish("identity") as Uint8Array).buffer).toBe(framed.buffer);
});

test("the limit is of the message, exactly", () => {
  const reader = new FramedMessage(3, new BodyBudget(Infinity).hold());
  expect(() => reader.push(frame(Buffer.from("abcd")).subarray(0, 5))).toThrow(
    "the request message is over the limit of 3 bytes (--max-message-bytes): got 4 bytes",
  );
});

test("many messages that are decompressed at one time stay within the budget, and give back what they had", async () => {
  const megabyte = 1024 * 1024;
  const budget = new BodyBudget(4 * megabyte);
  const compressed = gzipSync(Buffer.alloc(megabyte));
  let mostHeld = 0;
  const decompress = async (): Promise<string> => {
    const held = budget.hold();
    try {
      const reader = new FramedMessage(2 * megabyte, held);
      reader.push(frame(compressed, 1));
      const message = await reader.finish("gzip");
      return `${message.length} bytes`;
    } catch (error) {
      return String(error);
    } finally {
      mostHeld = Math.max(mostHeld, budget.heldBytes);
      held.release();
    }
  };
  // 25 times as much as there may be.
  const outcomes = await Promise.all(Array.from({ length: 100 }, decompress));
  const refused = outcomes.filter((outcome) => outcome !== "1048576 bytes");
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(100);
  for (const error of refused) {
    expect(error).toMatch(
      /^ServerError: the server is overloaded: \d+ of at most 4194304 bytes of requests are buffered \(--max-buffered-bytes\)$/u,
    );
  }
  expect(mostHeld).toBeGreaterThan(megabyte);
  expect(mostHeld).toBeLessThanOrEqual(4 * megabyte);
  expect(budget.heldBytes).toBe(0);
  expect(await decompress()).toBe("1048576 bytes");
});

test.each([1000, 20_000, 3_000_000])(
  "the largest message, of %i bytes, fits the least budget that there may be",
  async (most) => {
    // Random bytes: as large compressed as they are.
    const message = randomBytes(Math.floor(most * 0.999) - 40);
    const framed = frame(gzipSync(message), 1);
    const reader = new FramedMessage(most, new BodyBudget(largestBodyBytes(most)).hold());
    for (let at = 0; at < framed.length; at += 4096) reader.push(framed.subarray(at, at + 4096));
    expect((await reader.finish("gzip")).length).toBe(message.length);
  },
);

test("decompressing ends when the call is over, and leaves nothing behind", async () => {
  const budget = new BodyBudget(1_000_000);
  const held = budget.hold();
  const message = decompressGzip(gzipSync(Buffer.alloc(100_000)), 100_000, held);
  expect(budget.heldBytes).toBe(65_536);
  held.release();
  await expect(message).rejects.toThrow("the request is over");
  expect(budget.heldBytes).toBe(0);
});
