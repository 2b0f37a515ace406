import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameReader, type FrameSink } from "./frame-reader.ts";

class Collector implements FrameSink {
  readonly frames: string[] = [];
  private data: Buffer[] = [];
  private head = "";

  onFrameHeader(length: number, type: number, flags: number, streamId: number): void {
    this.head = `${type} ${flags} ${streamId} ${length}`;
  }

  onDataPiece(bytes: Buffer, start: number, end: number, ends: boolean): void {
    this.data.push(bytes.subarray(start, end));
    if (!ends) return;
    this.frames.push(`${this.head} ${Buffer.concat(this.data).toString("hex")}`);
    this.data = [];
  }

  onFrame(payload: Buffer, start: number, end: number): void {
    this.frames.push(`${this.head} ${payload.toString("hex", start, end)}`);
  }
}

function frame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

test("frames are the same wherever reads cut them", () => {
  const anyFrame = fc.record({
    type: fc.integer({ min: 0, max: 12 }),
    flags: fc.integer({ min: 0, max: 255 }),
    streamId: fc.integer({ min: 0, max: 0x7fffffff }),
    payload: fc.uint8Array({ maxLength: 40 }),
  });
  fc.assert(
    fc.property(
      fc.array(anyFrame, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
      (frames, cuts) => {
        const bytes = Buffer.concat(frames.map((each) => frame(each.type, each.flags, each.streamId, each.payload)));
        const collector = new Collector();
        const reader = new FrameReader(collector, 16_384);
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const length = cuts[turn % cuts.length] as number;
          reader.read(Buffer.from(bytes.subarray(at, at + length)));
          at += length;
        }
        expect(collector.frames).toEqual(
          frames.map(
            (each) =>
              `${each.type} ${each.flags} ${each.streamId} ${each.payload.length} ${Buffer.from(each.payload).toString("hex")}`,
          ),
        );
      },
    ),
  );
});

test("a frame over the limit is refused by its header alone", () => {
  const reader = new FrameReader(new Collector(), 16_384);
  expect(() => reader.read(Buffer.from("00400100000000000100", "hex"))).toThrow(
    "FRAME_SIZE_ERROR: a frame of 16385 bytes, the limit is 16384",
  );
});

test("the reserved bit of a stream id is ignored", () => {
  const collector = new Collector();
  new FrameReader(collector, 16_384).read(Buffer.from("000000040080000001", "hex"));
  expect(collector.frames).toEqual(["4 0 1 0 "]);
});
