import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FrameReader } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";
import { Http2Error } from "./http2-error.ts";

interface Frame {
  type: number;
  flags: number;
  streamId: number;
  payload: string;
}

function collect(chunks: readonly Buffer[], maxFrameBytes?: number): Frame[] {
  const frames: Frame[] = [];
  const reader = new FrameReader(
    {
      onFrame: (type, flags, streamId, buffer, start, end) =>
        void frames.push({ type, flags, streamId, payload: buffer.toString("hex", start, end) }),
    },
    maxFrameBytes,
  );
  for (const chunk of chunks) {
    // Like a socket that reads into one buffer again and again.
    const reused = Buffer.from(chunk);
    reader.push(reused);
    reused.fill(0xee);
  }
  return frames;
}

const anyFrame = fc.record({
  type: fc.nat(255),
  flags: fc.nat(255),
  streamId: fc.nat(0x7fff_ffff),
  payload: fc.uint8Array({ maxLength: 300 }),
});

function encode(frames: readonly { type: number; flags: number; streamId: number; payload: Uint8Array }[]): Buffer {
  const writer = new FrameWriter();
  for (const { type, flags, streamId, payload } of frames) {
    writer.header(payload.length, type, flags, streamId);
    writer.bytes(payload);
  }
  return Buffer.from(writer.take());
}

describe("FrameReader", () => {
  test("gives the frames that were written, however the bytes are cut into reads", () => {
    fc.assert(
      fc.property(fc.array(anyFrame, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 20 }), (frames, cuts) => {
        const bytes = encode(frames);
        const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
        const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
        const expected = frames.map((f) => ({ ...f, payload: Buffer.from(f.payload).toString("hex") }));
        expect(collect(chunks)).toEqual(expected);
      }),
    );
  });

  test("gives the frames that were written when every byte is a read of its own", () => {
    const frames = [
      { type: 0, flags: 1, streamId: 1, payload: Uint8Array.of(1, 2, 3) },
      { type: 4, flags: 1, streamId: 0, payload: new Uint8Array(0) },
    ];
    const bytes = encode(frames);
    expect(collect([...bytes].map((byte) => Buffer.of(byte)))).toEqual([
      { type: 0, flags: 1, streamId: 1, payload: "010203" },
      { type: 4, flags: 1, streamId: 0, payload: "" },
    ]);
  });

  test("ignores the reserved bit of the stream id", () => {
    expect(collect([Buffer.from("0000000000ffffffff", "hex")])).toEqual([
      { type: 0, flags: 0, streamId: 0x7fff_ffff, payload: "" },
    ]);
  });

  test.each([
    ["in one read", [Buffer.from("004001000000000001", "hex")]],
    ["in several", [Buffer.from("0040", "hex"), Buffer.from("01000000000001", "hex")]],
  ])("refuses a frame above the limit before its payload comes, its header %s", (_, chunks) => {
    expect(() => collect(chunks)).toThrow("FRAME_SIZE_ERROR: frame of 16385 bytes, the limit is 16384");
  });

  test("takes a frame of exactly the limit", () => {
    const bytes = encode([{ type: 0, flags: 0, streamId: 1, payload: new Uint8Array(16_384) }]);
    expect(collect([bytes.subarray(0, 100), bytes.subarray(100)])).toHaveLength(1);
  });

  test("fails with nothing but Http2Error on any bytes", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 64 }), { maxLength: 20 }), (chunks) => {
        try {
          collect(chunks.map((chunk) => Buffer.from(chunk)));
        } catch (error) {
          expect(error).toBeInstanceOf(Http2Error);
        }
      }),
    );
  });
});
