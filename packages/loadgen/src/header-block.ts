import { FrameFlag, Http2ErrorCode } from "./frame.ts";
import { Http2Error } from "./http2-error.ts";

/** Most bytes of one header block over all its frames: a bound on what CONTINUATION can make us keep. */
const MAX_HEADER_BLOCK_BYTES = 65_536;

/** Puts a header block together from HEADERS and CONTINUATION; one that is whole in HEADERS stays where it is. */
export class HeaderBlock {
  /** Whether CONTINUATION must follow. */
  open = false;
  streamId = 0;
  endStream = false;
  /** The block, once whole: `buffer[start, end)`. */
  buffer: Buffer = Buffer.alloc(0);
  start = 0;
  end = 0;
  #parts: Buffer[] = [];
  #bytes = 0;

  /** Returns itself when the block is whole, undefined when CONTINUATION must follow. */
  onHeaders(flags: number, streamId: number, buffer: Buffer, start: number, end: number): this | undefined {
    let from = start;
    let to = end;
    if ((flags & FrameFlag.padded) !== 0) {
      if (from >= to) fail(Http2ErrorCode.frameSizeError, "padded HEADERS without a pad length");
      to -= buffer[from] as number;
      from += 1;
    }
    if ((flags & FrameFlag.priority) !== 0) from += 5;
    if (from > to) fail(Http2ErrorCode.protocolError, "HEADERS shorter than its padding and priority");
    this.streamId = streamId;
    this.endStream = (flags & FrameFlag.endStream) !== 0;
    if ((flags & FrameFlag.endHeaders) !== 0) {
      this.buffer = buffer;
      this.start = from;
      this.end = to;
      return this;
    }
    this.open = true;
    this.#parts = [Buffer.from(buffer.subarray(from, to))];
    this.#bytes = to - from;
    return undefined;
  }

  onContinuation(flags: number, buffer: Buffer, start: number, end: number): this | undefined {
    if (!this.open) fail(Http2ErrorCode.protocolError, "CONTINUATION without HEADERS");
    this.#bytes += end - start;
    // Empty frames count as well: an endless run of them is an attack.
    this.#bytes += 1;
    if (this.#bytes > MAX_HEADER_BLOCK_BYTES) {
      fail(Http2ErrorCode.enhanceYourCalm, `a header block of more than ${MAX_HEADER_BLOCK_BYTES} bytes`);
    }
    this.#parts.push(Buffer.from(buffer.subarray(start, end)));
    if ((flags & FrameFlag.endHeaders) === 0) return undefined;
    this.open = false;
    this.buffer = Buffer.concat(this.#parts);
    this.#parts = [];
    this.start = 0;
    this.end = this.buffer.length;
    return this;
  }
}

function fail(code: number, message: string): never {
  throw new Http2Error(code, message);
}
