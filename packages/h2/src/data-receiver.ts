import { connectionError } from "./http2-error.ts";
import type { PeerBudget } from "./peer-budget.ts";
import { ErrorCode, Flag } from "./protocol.ts";
import type { ReceiveWindow } from "./receive-window.ts";
import type { StreamTable } from "./stream-table.ts";
import type { Http2Stream } from "./stream.ts";

/** Takes DATA frames, in the pieces in which they are read, to their streams. */
export class DataReceiver {
  private readonly streams: StreamTable;
  private readonly window: ReceiveWindow;
  private readonly budget: PeerBudget;
  // The frame that is being read; its stream is undefined when what it brings is dropped.
  private stream: Http2Stream | undefined = undefined;
  private endsStream = false;
  private length = 0;
  /** Octets of the padding; -1 while its length has not been read. */
  private paddingBytes = 0;
  private leftBytes = 0;

  constructor(streams: StreamTable, window: ReceiveWindow, budget: PeerBudget) {
    this.streams = streams;
    this.window = window;
    this.budget = budget;
  }

  /** The frame's header. */
  begin(length: number, flags: number, streamId: number): void {
    const { streams } = this;
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "DATA on stream 0");
    // Flow control counts the whole payload, padding too, also of a stream that is no longer there (section 6.9).
    this.window.take(length);
    this.endsStream = (flags & Flag.END_STREAM) !== 0;
    if (length === 0 && !this.endsStream) this.budget.takeControl("empty DATA frames");
    this.paddingBytes = (flags & Flag.PADDED) === 0 ? 0 : -1;
    this.length = length;
    this.leftBytes = length;
    if (this.paddingBytes < 0 && length === 0)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "a padded DATA frame without a pad length");
    this.stream = undefined;
    const stream = streams.of(streamId, "DATA");
    if (stream === undefined) {
      if (!streams.wasResetByUs(streamId)) streams.closedStreamError(streamId, "DATA");
      return undefined;
    }
    if (stream.remoteEnded) return streams.fault(stream, ErrorCode.STREAM_CLOSED);
    // A response starts with its headers (section 8.1).
    if (stream.headers === undefined) return streams.fault(stream, ErrorCode.PROTOCOL_ERROR);
    stream.receiveWindowBytes -= length;
    if (stream.receiveWindowBytes < 0) return streams.fault(stream, ErrorCode.FLOW_CONTROL_ERROR);
    this.stream = stream;
    return undefined;
  }

  /** A piece of its payload; `ends` with the last one. */
  piece(bytes: Buffer, start: number, end: number, ends: boolean): void {
    const length = end - start;
    const { stream } = this;
    if (stream === undefined || stream.closed) return this.window.give(length);
    stream.creditBytes += length;
    // What a paused stream holds is not given back, so that all of them together hold no more than the window.
    if (stream.isPaused) stream.heldBytes += length;
    else this.window.give(length);
    let from = start;
    this.leftBytes -= length;
    if (this.paddingBytes < 0 && from < end) this.readPadding(bytes[from++] as number);
    // What is left of the frame after this piece may be padding only, and so may the end of this piece.
    const to = Math.max(from, end - Math.max(0, this.paddingBytes - this.leftBytes));
    return this.deliver(stream, bytes, from, to, ends && this.endsStream);
  }

  private readPadding(paddingBytes: number): void {
    this.paddingBytes = paddingBytes;
    if (paddingBytes >= this.length)
      throw connectionError(
        ErrorCode.PROTOCOL_ERROR,
        `a padding of ${paddingBytes} bytes in a DATA frame of ${this.length}`,
      );
    if (paddingBytes === this.length - 1 && !this.endsStream) this.budget.takeControl("DATA frames of padding only");
  }

  private deliver(stream: Http2Stream, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    const { declaredBytes } = stream;
    if (declaredBytes !== undefined) {
      const received = stream.receivedBytes + to - from;
      if (received > declaredBytes || (endStream && received !== declaredBytes))
        return this.streams.fault(stream, ErrorCode.PROTOCOL_ERROR);
    }
    try {
      if (endStream) stream.remoteEnding = true;
      if (to > from || endStream) stream.receive(bytes, from, to, endStream);
      if (stream.closed) return undefined;
      if (endStream) stream.endRemote(undefined);
      else stream.giveCredit();
    } catch (cause) {
      this.streams.handlerFailed(stream, cause);
    }
    return undefined;
  }
}
