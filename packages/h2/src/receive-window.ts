import { connectionError } from "./http2-error.ts";
import type { Output } from "./output.ts";
import { ErrorCode } from "./protocol.ts";

/**
 * The connection's window for what the peer sends (RFC 9113, section 5.2).
 *
 * Invariant: what the peer has left, what is in `creditBytes`, and what paused streams hold add up to `windowBytes`.
 */
export class ReceiveWindow {
  private readonly output: Output;
  private readonly windowBytes: number;
  private leftBytes: number;
  /** Octets that are free again, and not worth a frame yet. */
  private creditBytes = 0;
  private stopped = false;

  constructor(output: Output, windowBytes: number) {
    this.output = output;
    this.windowBytes = windowBytes;
    this.leftBytes = windowBytes;
  }

  /** The payload of a DATA frame that is to come; throws when it is more than the peer may send. */
  take(bytes: number): void {
    this.leftBytes -= bytes;
    if (this.leftBytes >= 0) return;
    throw connectionError(
      ErrorCode.FLOW_CONTROL_ERROR,
      `more data than the connection's window of ${this.windowBytes} bytes`,
    );
  }

  /** Octets of the peer's that need the window no more; it is told once that is worth a frame. */
  give(bytes: number): void {
    this.creditBytes += bytes;
    if (this.creditBytes * 2 < this.windowBytes || this.stopped) return;
    this.output.windowUpdate(0, this.creditBytes);
    this.leftBytes += this.creditBytes;
    this.creditBytes = 0;
  }

  /** The peer is told nothing more. */
  stop(): void {
    this.stopped = true;
  }
}
