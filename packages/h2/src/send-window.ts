import { connectionError } from "./http2-error.ts";
import type { Output } from "./output.ts";
import type { PeerBudget } from "./peer-budget.ts";
import type { PeerSettings } from "./peer-settings.ts";
import { DEFAULT_WINDOW_BYTES, ErrorCode, Flag, FrameType, LARGEST_WINDOW_BYTES } from "./protocol.ts";
import type { Http2Stream } from "./stream.ts";

/**
 * What the peer's windows let us send, and the streams that wait for window (RFC 9113, section 5.2).
 *
 * Invariant: a stream waits exactly while it has queued data.
 */
export class SendWindow {
  private readonly output: Output;
  private readonly peer: PeerSettings;
  private readonly budget: PeerBudget;
  private readonly waiting = new Set<Http2Stream>();
  private leftBytes: number = DEFAULT_WINDOW_BYTES;
  /** Octets of DATA sent so far. */
  sentBytes = 0;

  constructor(output: Output, peer: PeerSettings, budget: PeerBudget) {
    this.output = output;
    this.peer = peer;
    this.budget = budget;
  }

  get streamsWait(): boolean {
    return this.waiting.size > 0;
  }

  /** Sends as much as the windows allow; returns how much. END_STREAM goes with the last octet only. */
  send(stream: Http2Stream, piece: Uint8Array, endStream: boolean): number {
    let sent = 0;
    do {
      const left = piece.length - sent;
      const room = Math.min(this.leftBytes, stream.sendWindowBytes, this.peer.maxFrameBytes);
      if (room <= 0 && left > 0) return sent;
      const length = left === 0 ? 0 : Math.min(left, room);
      const isLast = endStream && length === left;
      this.output.frameHeader(length, FrameType.DATA, isLast ? Flag.END_STREAM : 0, stream.id);
      this.budget.earn(length, length === left);
      if (length > 0) this.output.bytes(piece, sent, sent + length);
      this.leftBytes -= length;
      this.sentBytes += length;
      stream.sendWindowBytes -= length;
      sent += length;
    } while (sent < piece.length);
    return sent;
  }

  /** The peer has made the connection's window larger. */
  widen(bytes: number): void {
    if (bytes === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0");
    this.leftBytes += bytes;
    if (this.leftBytes > LARGEST_WINDOW_BYTES)
      throw connectionError(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is too large");
  }

  waitsFor(stream: Http2Stream): boolean {
    return this.waiting.has(stream);
  }

  wait(stream: Http2Stream): void {
    this.waiting.add(stream);
  }

  forget(stream: Http2Stream): void {
    this.waiting.delete(stream);
  }

  /** Lets the streams that wait send, in turn, as far as the window goes. */
  serveWaiting(serve: (stream: Http2Stream) => void): void {
    let left = this.waiting.size;
    for (const stream of this.waiting) {
      // Those that wait again are at the end of the set.
      if (left-- === 0) return;
      serve(stream);
      if (this.leftBytes > 0) continue;
      // The window is used up: the next one goes to the streams that have waited.
      if (this.waiting.delete(stream)) this.waiting.add(stream);
      return;
    }
  }
}
