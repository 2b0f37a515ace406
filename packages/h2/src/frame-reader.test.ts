import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameReader, type FrameSink, type PayloadUse } from "./frame-reader.ts";

class Collector implements FrameSink {
  readonly frames: string[] = [];
  private data: Buffer[] = [];
  private head = "";
  private readonly onHeader: (() => void) | undefined;

  constructor(events: { readonly onHeader?: () => void } = {}) {
    this.onHeader = events.onHeader;
  }

  onFrameHeader(length: number, type: number, flags: number, streamId: number): PayloadUse {
    this.head = `${type} ${flags} ${streamId} ${length}`;
    this.onHeader?.();
    return type === 0 ? "pieces" : type > 10 ? "drop" : "whole";
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
          frames
            .filter((each) => each.type <= 10)
            .map(
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
    /FRAME_SIZE_ERROR: a frame of 16385 bytes, the limit is 16384$/,
  );
});

test.each([
  ["HTTP/1.1 400 Bad Request\r\n", '"HTTP/1.1 "'],
  ["\r\n<!DOCTYPE html>", '"\\r\\n<!DOCTY"'],
])("a peer that answers in text, %j, is said not to speak HTTP/2", (answer, shown) => {
  const reader = new FrameReader(new Collector(), 16_384);
  const length = Buffer.from(answer).readUIntBE(0, 3);
  expect(() => reader.read(Buffer.from(answer))).toThrow(
    `FRAME_SIZE_ERROR: a frame of ${length} bytes, the limit is 16384 (its header is the text ${shown}: a peer that does not speak HTTP/2?)`,
  );
});

test("the reserved bit of a stream id is ignored", () => {
  const collector = new Collector();
  new FrameReader(collector, 16_384).read(Buffer.from("000000040080000001", "hex"));
  expect(collector.frames).toEqual(["4 0 1 0 "]);
});

test("what comes while the reader is paused is kept, and read when it goes on", () => {
  const bytes = Buffer.concat([
    frame(4, 0, 0, new Uint8Array(6)),
    frame(0, 1, 1, new Uint8Array()),
    frame(6, 0, 0, new Uint8Array(8)),
  ]);
  const all = ["4 0 0 6 000000000000", "0 1 1 0 ", "6 0 0 8 0000000000000000"];
  // It pauses itself at each frame, wherever the reads cut them.
  for (let cut = 0; cut <= bytes.length; cut++) {
    const collector: Collector = new Collector({ onHeader: () => reader.pause() });
    const reader: FrameReader = new FrameReader(collector, 16_384);
    reader.read(bytes.subarray(0, cut));
    reader.read(bytes.subarray(cut));
    for (let turn = 0; turn < 4; turn++) reader.resume();
    expect(collector.frames).toEqual(all);
  }
});

test("a frame that is dropped takes no memory, however long it says it is", () => {
  const reader = new FrameReader(new Collector(), 16_777_215);
  const before = process.memoryUsage().arrayBuffers;
  reader.read(Buffer.from("ffffff0b000000000100", "hex"));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
});
