import { Http2Error } from "./http2-error.ts";
import { ErrorCode, FRAME_HEADER_BYTES } from "./protocol.ts";

/** What becomes of a frame's payload: handed on whole, handed on as it comes (DATA), or dropped unseen. */
export type PayloadUse = "whole" | "pieces" | "drop";

/** What a connection does with what was read. What is handed over is valid until the call returns. */
export interface FrameSink {
  /** The header of a frame, before its payload: throws on a frame that may not come now. `length` is the payload's. */
  onFrameHeader(length: number, type: number, flags: number, streamId: number): PayloadUse;
  /** A piece of a DATA frame's payload, padding included; `ends` with the last piece, which may be empty. */
  onDataPiece(bytes: Buffer, start: number, end: number, ends: boolean): void;
  /** The whole payload of any other frame. */
  onFrame(payload: Buffer, start: number, end: number): void;
}

/**
 * Cuts what a socket reads into frames (RFC 9113, section 4.1), in place: whole frames are views of the read, DATA is
 * handed on as it comes, and only what a read cuts off is copied.
 */
export class FrameReader {
  private readonly sink: FrameSink;
  private readonly maxFrameBytes: number;
  private readonly header: Buffer = Buffer.allocUnsafeSlow(FRAME_HEADER_BYTES);
  private headerBytes = 0;
  private inFrame = false;
  private use: PayloadUse = "whole";
  /** Octets of the payload that have not been read. */
  private left = 0;
  private staging: Buffer | undefined;
  private staged = 0;
  private stopped = false;
  private paused = false;
  /** What came while it was paused. */
  private rest: Buffer | undefined;

  constructor(sink: FrameSink, maxFrameBytes: number) {
    this.sink = sink;
    this.maxFrameBytes = maxFrameBytes;
  }

  /** Nothing more is handed on, not even the rest of the read that is being cut. */
  stop(): void {
    this.stopped = true;
  }

  /** What is read from here on, and the rest of the read that is being cut, is kept until `resume`. */
  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
    const { rest } = this;
    this.rest = undefined;
    if (rest !== undefined) this.read(rest);
  }

  read(chunk: Buffer, start = 0, end: number = chunk.length): void {
    let at = start;
    while (!this.stopped) {
      if (this.paused) {
        const rest = chunk.subarray(at, end);
        this.rest = Buffer.concat(this.rest === undefined ? [rest] : [this.rest, rest]);
        return;
      }
      if (!this.inFrame) {
        if (at >= end) return;
        if (this.headerBytes === 0 && end - at >= FRAME_HEADER_BYTES) {
          this.begin(chunk, at);
          at += FRAME_HEADER_BYTES;
        } else {
          const taken = Math.min(FRAME_HEADER_BYTES - this.headerBytes, end - at);
          chunk.copy(this.header, this.headerBytes, at, at + taken);
          this.headerBytes += taken;
          at += taken;
          if (this.headerBytes < FRAME_HEADER_BYTES) return;
          this.headerBytes = 0;
          this.begin(this.header, 0);
        }
        if (this.stopped) return;
      }
      const available = end - at;
      if (this.use !== "whole") {
        if (available === 0 && this.left > 0) return;
        const from = at;
        at += Math.min(this.left, available);
        this.left -= at - from;
        this.inFrame = this.left > 0;
        if (this.use === "pieces") this.sink.onDataPiece(chunk, from, at, this.left === 0);
      } else if (this.staging === undefined && available >= this.left) {
        this.inFrame = false;
        const from = at;
        at += this.left;
        this.sink.onFrame(chunk, from, at);
      } else {
        const staging = (this.staging ??= Buffer.allocUnsafe(this.left));
        const taken = Math.min(this.left - this.staged, available);
        chunk.copy(staging, this.staged, at, at + taken);
        this.staged += taken;
        at += taken;
        if (this.staged < this.left) return;
        this.inFrame = false;
        this.staging = undefined;
        this.staged = 0;
        this.sink.onFrame(staging, 0, staging.length);
      }
    }
  }

  private begin(from: Buffer, at: number): void {
    const length = ((from[at] as number) << 16) | ((from[at + 1] as number) << 8) | (from[at + 2] as number);
    const type = from[at + 3] as number;
    const flags = from[at + 4] as number;
    // The reserved bit is ignored on receipt.
    const streamId =
      (((from[at + 5] as number) & 0x7f) << 24) |
      ((from[at + 6] as number) << 16) |
      ((from[at + 7] as number) << 8) |
      (from[at + 8] as number);
    if (length > this.maxFrameBytes) {
      throw new Http2Error(
        "connection",
        ErrorCode.FRAME_SIZE_ERROR,
        `a frame of ${length} bytes, the limit is ${this.maxFrameBytes}${textHint(from, at)}`,
      );
    }
    this.left = length;
    this.inFrame = true;
    this.use = this.sink.onFrameHeader(length, type, flags, streamId);
  }
}

/** For a frame's header that is text, such as the first octets of an HTTP/1.1 answer: says so, as its length means nothing. */
function textHint(from: Buffer, at: number): string {
  const text = from.toString("latin1", at, at + FRAME_HEADER_BYTES);
  return /^[\t\r\n -~]+$/u.test(text)
    ? ` (its header is the text ${JSON.stringify(text)}: a peer that does not speak HTTP/2?)`
    : "";
}
