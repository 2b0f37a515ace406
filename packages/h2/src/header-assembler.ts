import type { HeaderBlock } from "./header-block.ts";
import type { HpackDecoder } from "./hpack-decoder.ts";
import { connectionError } from "./http2-error.ts";
import type { ConnectionLimits } from "./limits.ts";
import { ErrorCode, Flag, LARGEST_STREAM_ID } from "./protocol.ts";

/** An encoded list is hardly ever longer than the list; twice that leaves room for size updates and long integers. */
const ENCODED_BYTES_PER_LISTED = 2;
const PRIORITY_BYTES = 5;

/** Whoever takes the header blocks of a connection. */
export interface HeaderBlockSink {
  /** A header block is complete; `block` is undefined when it was larger than allowed. */
  onHeaderBlock(streamId: number, block: HeaderBlock | undefined, endStream: boolean): void;
}

/** Puts header blocks together from HEADERS and CONTINUATION frames, and decodes them. */
export class HeaderAssembler {
  private readonly sink: HeaderBlockSink;
  private readonly decoder: HpackDecoder;
  private readonly limits: ConnectionLimits;
  /** The stream whose header block is being read; 0 while there is none. */
  streamId = 0;
  private endsStream = false;
  private pieces: Buffer[] = [];
  private bytes = 0;

  constructor(sink: HeaderBlockSink, decoder: HpackDecoder, limits: ConnectionLimits) {
    this.sink = sink;
    this.decoder = decoder;
    this.limits = limits;
  }

  onHeaders(payload: Buffer, start: number, end: number, flags: number, streamId: number): void {
    let from = start;
    let to = end;
    if ((flags & Flag.PADDED) !== 0) {
      if (from >= to) throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "a padded HEADERS frame without a pad length");
      const padding = payload[from++] as number;
      to -= padding;
      if (to < from)
        throw connectionError(
          ErrorCode.PROTOCOL_ERROR,
          `a padding of ${padding} bytes in a HEADERS frame of ${end - start}`,
        );
    }
    if ((flags & Flag.PRIORITY) !== 0) {
      if (to - from < PRIORITY_BYTES)
        throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame too short for its priority");
      if ((payload.readUInt32BE(from) & LARGEST_STREAM_ID) === streamId)
        throw connectionError(ErrorCode.PROTOCOL_ERROR, `stream ${streamId} depends on itself`);
      from += PRIORITY_BYTES;
    }
    this.streamId = streamId;
    this.endsStream = (flags & Flag.END_STREAM) !== 0;
    this.bytes = 0;
    if ((flags & Flag.END_HEADERS) !== 0) {
      this.count(to - from, 1);
      return this.finish(payload, from, to);
    }
    this.pieces = [];
    return this.add(payload, from, to);
  }

  onContinuation(payload: Buffer, start: number, end: number, flags: number): void {
    this.add(payload, start, end);
    if ((flags & Flag.END_HEADERS) === 0) return;
    const whole = Buffer.concat(this.pieces);
    this.pieces = [];
    this.finish(whole, 0, whole.length);
  }

  private add(payload: Buffer, start: number, end: number): void {
    this.pieces.push(Buffer.copyBytesFrom(payload, start, end - start));
    this.count(end - start, this.pieces.length);
  }

  private count(bytes: number, frames: number): void {
    this.bytes += bytes;
    const { maxContinuations, maxHeaderListBytes } = this.limits;
    if (frames > maxContinuations + 1 || this.bytes > ENCODED_BYTES_PER_LISTED * maxHeaderListBytes) {
      throw connectionError(
        ErrorCode.ENHANCE_YOUR_CALM,
        `a header block of ${this.bytes} bytes in ${frames} frames; limits: maxHeaderListBytes ${maxHeaderListBytes}, maxContinuations ${maxContinuations}`,
      );
    }
  }

  private finish(source: Buffer, start: number, end: number): void {
    const { streamId } = this;
    this.streamId = 0;
    this.sink.onHeaderBlock(streamId, this.decoder.decode(source, start, end), this.endsStream);
  }
}
