import { connectionError, type Http2Error } from "./http2-error.ts";
import type { Output } from "./output.ts";
import type { PeerBudget } from "./peer-budget.ts";
import { ErrorCode, LARGEST_WINDOW_BYTES } from "./protocol.ts";
import { RecentResets } from "./recent-resets.ts";
import { StreamMap } from "./stream-map.ts";
import type { Http2Stream } from "./stream.ts";

/** What the table asks of its connection. */
export interface StreamTableOwner {
  readonly isClosed: boolean;
  /** Whether the stream has never been opened. */
  isIdle(streamId: number): boolean;
  destroy(error: Http2Error): void;
  /** A stream's handler threw. */
  onHandlerError(cause: unknown): void;
}

/** The streams that are not closed, and how they end when something goes wrong. */
export class StreamTable {
  private readonly owner: StreamTableOwner;
  private readonly output: Output;
  private readonly budget: PeerBudget;
  private readonly streams = new StreamMap();
  private readonly resets = new RecentResets();

  constructor(owner: StreamTableOwner, output: Output, budget: PeerBudget) {
    this.owner = owner;
    this.output = output;
    this.budget = budget;
  }

  get size(): number {
    return this.streams.size;
  }

  get(streamId: number): Http2Stream | undefined {
    return this.streams.get(streamId);
  }

  add(stream: Http2Stream): void {
    this.streams.add(stream);
    this.budget.earnStreamReset();
  }

  forget(stream: Http2Stream): void {
    this.streams.delete(stream);
  }

  /** All of them as they are now, whatever becomes of them, in the order in which they were opened. */
  all(): Http2Stream[] {
    return this.streams.all().sort((a, b) => a.id - b.id);
  }

  /** The peer has changed the window that each stream starts with (RFC 9113, section 6.9.2). */
  changeSendWindows(bytes: number): void {
    for (const stream of this.streams.all()) {
      stream.sendWindowBytes += bytes;
      if (stream.sendWindowBytes > LARGEST_WINDOW_BYTES)
        throw connectionError(ErrorCode.FLOW_CONTROL_ERROR, `the window of stream ${stream.id} is too large`);
    }
  }

  /** The stream that a frame is for, or undefined when it is closed; throws when it has never been opened. */
  of(streamId: number, what: string): Http2Stream | undefined {
    const stream = this.streams.get(streamId);
    if (stream === undefined && this.owner.isIdle(streamId))
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `${what} on stream ${streamId}, which is idle`);
    return stream;
  }

  wasResetByUs(streamId: number): boolean {
    return this.resets.has(streamId);
  }

  /**
   * The peer broke a rule on a stream, and loses it. A peer that does so on purpose makes work that it need not wait for,
   * like one that resets its streams itself: it may do so only so often.
   */
  fault(stream: Http2Stream, errorCode: number): void {
    if (this.takeReset()) this.guarded(stream, () => stream.reset(errorCode));
  }

  /** Likewise, for a stream that is not open. */
  faultUnknown(streamId: number, errorCode: number): void {
    if (this.takeReset()) this.reset(streamId, errorCode);
  }

  /** Likewise, for one that may be either. */
  faultAny(streamId: number, errorCode: number): void {
    const stream = this.streams.get(streamId);
    if (stream === undefined) this.faultUnknown(streamId, errorCode);
    else this.fault(stream, errorCode);
  }

  /** A stream was answered whole. */
  earnReset(): void {
    this.budget.earnReset();
  }

  /** False when the peer has had too many streams reset: then the connection has been ended. */
  takeReset(): boolean {
    if (this.owner.isClosed) return false;
    const error = this.budget.takeReset();
    // Not thrown: a stream's handler may be on the stack, and what it throws ends its stream only.
    if (error !== undefined) this.owner.destroy(error);
    return error === undefined;
  }

  /** Tells the peer that a stream is over, and remembers it. */
  reset(streamId: number, errorCode: number): void {
    this.resets.add(streamId);
    this.budget.earnLateHeaders();
    this.output.resetStream(streamId, errorCode);
  }

  /** A frame on a stream that is closed, and not by our reset. */
  closedStreamError(streamId: number, what: string): void {
    this.budget.takeControl(`${what} frames on closed streams`);
    this.reset(streamId, ErrorCode.STREAM_CLOSED);
  }

  /** Tells a stream's handler that the stream is over; what that throws must not keep the others from being told. */
  abort(stream: Http2Stream, errorCode: number): void {
    this.guarded(stream, () => stream.abort(errorCode));
  }

  guarded(stream: Http2Stream, step: () => void): void {
    try {
      step();
    } catch (cause) {
      this.handlerFailed(stream, cause);
    }
  }

  /** A mistake of a stream's handler ends its own stream only. */
  handlerFailed(stream: Http2Stream, cause: unknown): void {
    this.owner.onHandlerError(cause);
    if (stream.closed) return;
    // What `onReset` may throw now is told too, and by then the stream is closed.
    this.guarded(stream, () => stream.reset(ErrorCode.INTERNAL_ERROR));
  }
}
