import { DEFAULT_MAX_FRAME_BYTES, FRAME_HEADER_BYTES, Http2ErrorCode } from "./frame.ts";
import { Http2Error } from "./http2-error.ts";

/** Takes whole frames. The payload is `buffer[start, end)`, valid only during the call. */
export interface FrameHandler {
  onFrame(type: number, flags: number, streamId: number, buffer: Buffer, start: number, end: number): void;
}

/**
 * Cuts a byte stream into HTTP/2 frames.
 *
 * Whole frames are handed out in place, without a copy. Only a frame that is cut by the end of a read is assembled, in
 * one buffer that is kept, so memory is bounded by one frame.
 *
 * Throws {@link Http2Error} (FRAME_SIZE_ERROR) on a frame larger than `maxFrameBytes`; the reader is of no use after that.
 */
export class FrameReader {
  readonly #handler: FrameHandler;
  readonly #maxFrameBytes: number;
  /** Head of a frame that is not complete yet: bytes [0, #kept). */
  #partial: Buffer = Buffer.alloc(0);
  #kept = 0;

  constructor(handler: FrameHandler, maxFrameBytes: number = DEFAULT_MAX_FRAME_BYTES) {
    this.#handler = handler;
    this.#maxFrameBytes = maxFrameBytes;
  }

  /** Takes the next `length` bytes of `chunk`; the chunk is the caller's again afterwards. */
  push(chunk: Buffer, length: number = chunk.length): void {
    let at = this.#kept > 0 ? this.#complete(chunk, length) : 0;
    while (length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + this.#payloadBytes(chunk, at);
      if (end > length) break;
      this.#emit(chunk, at, end);
      at = end;
    }
    if (at < length) this.#keep(chunk, at, length);
  }

  /** Completes and emits the frame that an earlier read cut. Returns how many bytes of the chunk it took. */
  #complete(chunk: Buffer, length: number): number {
    let at = 0;
    for (;;) {
      let needed = FRAME_HEADER_BYTES;
      if (this.#kept >= FRAME_HEADER_BYTES) needed += this.#payloadBytes(this.#partial, 0);
      if (this.#kept >= FRAME_HEADER_BYTES && this.#kept === needed) {
        this.#kept = 0;
        this.#emit(this.#partial, 0, needed);
        return at;
      }
      if (at === length) return at;
      const take = Math.min(needed - this.#kept, length - at);
      this.#keep(chunk, at, at + take);
      at += take;
    }
  }

  #keep(chunk: Buffer, start: number, end: number): void {
    // Allocated with the first frame that is cut: most connections of a load generator never see one.
    if (this.#partial.length === 0) this.#partial = Buffer.allocUnsafe(FRAME_HEADER_BYTES + this.#maxFrameBytes);
    chunk.copy(this.#partial, this.#kept, start, end);
    this.#kept += end - start;
  }

  #payloadBytes(buffer: Buffer, at: number): number {
    const bytes = buffer.readUIntBE(at, 3);
    if (bytes > this.#maxFrameBytes) {
      throw new Http2Error(
        Http2ErrorCode.frameSizeError,
        `frame of ${bytes} bytes, the limit is ${this.#maxFrameBytes}`,
      );
    }
    return bytes;
  }

  #emit(buffer: Buffer, at: number, end: number): void {
    this.#handler.onFrame(
      buffer[at + 3] as number,
      buffer[at + 4] as number,
      buffer.readUInt32BE(at + 5) & 0x7fff_ffff,
      buffer,
      at + FRAME_HEADER_BYTES,
      end,
    );
  }
}
