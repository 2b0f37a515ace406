import { connectionError, type Http2Error } from "./http2-error.ts";
import type { ConnectionLimits } from "./limits.ts";
import { ErrorCode } from "./protocol.ts";
import { TokenBucket } from "./token-bucket.ts";

/** DATA that is cut shorter than this by the peer's window earns it no WINDOW_UPDATE free of charge. */
const WORTHWHILE_DATA_BYTES = 256;

/** The headers and the trailers of an answer that was on its way when its stream was reset. */
const LATE_HEADERS = 2;

/** How much a peer may still do that makes work for us and brings nothing. */
export class PeerBudget {
  private readonly limits: ConnectionLimits;
  private readonly controlTokens: TokenBucket;
  private readonly resetTokens: TokenBucket;
  /** WINDOW_UPDATE frames that the peer has earned by the data that it was sent; each beyond them costs a token. */
  private earnedWindowUpdates = 0;
  /** Likewise PING frames: gRPC's clients measure with them how fast the data comes. */
  private earnedPings = 0;
  /** RST_STREAM frames: one for each stream that was opened, also if it was answered just then. */
  private earnedStreamResets = 0;
  /** HEADERS frames on streams that we have reset: the peer may have sent them before it knew. */
  private earnedLateHeaders = 0;

  constructor(limits: ConnectionLimits, nowMs: () => number) {
    this.limits = limits;
    this.controlTokens = new TokenBucket(limits.controlFrameBurst, nowMs);
    this.resetTokens = new TokenBucket(limits.resetBurst, nowMs);
  }

  /** A frame that brings nothing; throws when there have been too many. */
  takeControl(what: string): void {
    if (this.controlTokens.take()) return;
    throw connectionError(
      ErrorCode.ENHANCE_YOUR_CALM,
      `more ${what} than controlFrameBurst (${this.limits.controlFrameBurst}) allows`,
    );
  }

  takeWindowUpdate(): void {
    if (this.earnedWindowUpdates > 0) this.earnedWindowUpdates -= 1;
    else this.takeControl("WINDOW_UPDATE frames without data");
  }

  takePing(): void {
    if (this.earnedPings > 0) this.earnedPings -= 1;
    else this.takeControl("PING frames");
  }

  takeRstStream(): void {
    if (this.earnedStreamResets > 0) this.earnedStreamResets -= 1;
    else this.takeControl("RST_STREAM frames");
  }

  /** On a stream that we have reset. */
  takeLateHeaders(): void {
    if (this.earnedLateHeaders > 0) this.earnedLateHeaders -= 1;
    else this.takeControl("HEADERS frames on closed streams");
  }

  /** A stream was opened. */
  earnStreamReset(): void {
    this.earnedStreamResets += 1;
  }

  /** We have reset a stream. */
  earnLateHeaders(): void {
    this.earnedLateHeaders += LATE_HEADERS;
  }

  /** The peer was sent so much data; `isAll` when it was all that there was. */
  earn(bytes: number, isAll: boolean): void {
    if (!isAll && bytes < WORTHWHILE_DATA_BYTES) return;
    // One for the stream and one for the connection.
    this.earnedWindowUpdates += 2;
    this.earnedPings += 1;
  }

  /** A stream was answered whole: that makes up for one that is reset. */
  earnReset(): void {
    this.resetTokens.give();
  }

  /** A stream that the peer has reset, or made us reset; returns what ends the connection when there have been too many. */
  takeReset(): Http2Error | undefined {
    return this.resetTokens.take()
      ? undefined
      : connectionError(
          ErrorCode.ENHANCE_YOUR_CALM,
          `more streams were reset than resetBurst (${this.limits.resetBurst}) allows`,
        );
  }
}
