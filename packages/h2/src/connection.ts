import type { Duplex } from "node:stream";
import { FrameReader, type FrameSink, type PayloadUse } from "./frame-reader.ts";
import type { HeaderBlock } from "./header-block.ts";
import { HpackDecoder } from "./hpack-decoder.ts";
import { Http2Error } from "./http2-error.ts";
import { fillLimits, type ConnectionLimits } from "./limits.ts";
import { Output } from "./output.ts";
import {
  DEFAULT_HEADER_TABLE_BYTES,
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  ErrorCode,
  Flag,
  FrameType,
  LARGEST_MAX_FRAME_BYTES,
  LARGEST_STREAM_ID,
  LARGEST_WINDOW_BYTES,
  Setting,
} from "./protocol.ts";
import type { Http2Stream } from "./stream.ts";
import { TokenBucket } from "./token-bucket.ts";

/** Streams that we have reset are remembered, so that what the peer sent before it knew is not an error. */
const REMEMBERED_RESETS = 1024;
/** Settings in one SETTINGS frame; there are hardly a dozen in all, and each may cost a look at every stream. */
const MAX_SETTINGS_IN_FRAME = 64;
/** DATA that is cut shorter than this by the peer's window earns it no WINDOW_UPDATE free of charge. */
const WORTHWHILE_DATA_BYTES = 256;
/** An encoded list is hardly ever longer than the list; twice that leaves room for size updates and long integers. */
const ENCODED_BYTES_PER_LISTED = 2;

const keepalivePing = Buffer.from("keepaliv", "latin1");

function connectionError(errorCode: number, message: string): Http2Error {
  return new Http2Error("connection", errorCode, message);
}

export interface ConnectionOptions {
  readonly limits?: Partial<ConnectionLimits>;
  /** Monotonic milliseconds; `performance.now` by default. */
  readonly nowMs?: () => number;
  /**
   * Whoever made the socket hands over what it reads, by `read`, and may use the memory again when that returns (the
   * `onread` option of `net.connect`). False by default: the connection listens to the socket's "data".
   */
  readonly readsAreLent?: boolean;
}

export interface ConnectionEvents {
  /** The connection has ended; `error` says why if it was not at either side's wish. Called once. */
  onClose?(error: Http2Error | undefined): void;
  /** A stream's handler threw `cause`; its stream has been reset with INTERNAL_ERROR. Nothing may be thrown here. */
  onHandlerError?(cause: unknown): void;
}

/**
 * What both ends of an HTTP/2 connection share (RFC 9113): frames, settings, flow control, PING, GOAWAY, and the streams.
 *
 * Invariants: `streams` holds exactly the streams that are not closed; a stream is in `blocked` exactly while it has queued
 * data; the window that the peer has left, what is in `creditBytes`, and what paused streams hold add up to
 * `connectionWindowBytes`; `queuedBodyBytes` and `bufferedBodyBytes` are the sums over the open streams.
 */
export abstract class Http2Connection implements FrameSink {
  readonly limits: ConnectionLimits;
  /** @internal */ readonly output: Output;
  /** @internal What is read is valid until the call that hands it over returns: whoever keeps some of it makes a copy. */
  readonly readsAreLent: boolean;
  protected readonly socket: Duplex;
  protected readonly streams: Map<number, Http2Stream> = new Map<number, Http2Stream>();
  protected readonly decoder: HpackDecoder;
  protected readonly nowMs: () => number;
  /** The highest stream that the peer has opened (a server's) or that we have (a client's). */
  protected lastStreamId = 0;
  protected goawaySent = false;
  protected goawayReceived = false;
  /** Streams that the peer lets us open. */
  protected peerMaxConcurrentStreams: number = Infinity;
  private readonly reader: FrameReader;
  private readonly events: ConnectionEvents;
  private readonly blocked = new Set<Http2Stream>();
  private readonly resets = new Uint32Array(REMEMBERED_RESETS);
  private nextReset = 0;
  private readonly controlTokens: TokenBucket;
  private readonly resetTokens: TokenBucket;

  private settingsReceived = false;
  private settingsAcknowledged = false;
  private peerInitialWindowBytes = DEFAULT_WINDOW_BYTES;
  private peerMaxFrameBytes = DEFAULT_MAX_FRAME_BYTES;
  /** An encoded table size update that must start our next header block. */
  private headerPrefix: number | undefined = undefined;
  private announcedTableBytes = DEFAULT_HEADER_TABLE_BYTES;
  private sendWindowBytes = DEFAULT_WINDOW_BYTES;
  private sentDataBytes = 0;
  /** WINDOW_UPDATE frames that the peer has earned by the data that it was sent; each beyond them costs a token. */
  private earnedWindowUpdates = 0;
  /** Bodies of ours that wait for window. */
  protected queuedBodyBytes = 0;
  /** Memory of the peer's bodies that are not whole yet. */
  private bufferedBodyBytes = 0;
  private receiveWindowBytes: number;
  private creditBytes = 0;

  // The frame that is being read.
  private frameType = 0;
  private frameFlags = 0;
  private frameStreamId = 0;
  private frameLength = 0;
  private dataStream: Http2Stream | undefined = undefined;
  /** Octets of a DATA frame's padding; -1 while its length has not been read. */
  private paddingBytes = 0;
  private dataBytesLeft = 0;

  // The header block that is being read; its stream id is 0 while there is none.
  private blockStreamId = 0;
  private blockEndsStream = false;
  private blockPieces: Buffer[] = [];
  private blockBytes = 0;

  private ended = false;
  private endError: Http2Error | undefined = undefined;
  private waitingForDrain = false;

  constructor(socket: Duplex, events: ConnectionEvents, options: ConnectionOptions) {
    const { nowMs = () => performance.now() } = options;
    this.limits = fillLimits(options.limits);
    this.readsAreLent = options.readsAreLent === true;
    this.socket = socket;
    this.events = events;
    this.nowMs = nowMs;
    this.output = new Output(socket, this.limits.maxOutputBytes, () => this.stopReading());
    this.reader = new FrameReader(this, this.limits.maxFrameBytes);
    const { headerTableBytes, maxHeaderListBytes } = this.limits;
    // Until it has seen our settings, the peer goes by the protocol's default.
    this.decoder = new HpackDecoder({
      initialTableBytes: DEFAULT_HEADER_TABLE_BYTES,
      maxTableBytes: Math.max(headerTableBytes, DEFAULT_HEADER_TABLE_BYTES),
      maxHeaderListBytes,
    });
    this.receiveWindowBytes = this.limits.connectionWindowBytes;
    this.controlTokens = new TokenBucket(this.limits.controlFrameBurst, nowMs);
    this.resetTokens = new TokenBucket(this.limits.resetBurst, nowMs);
    if (!this.readsAreLent) socket.on("data", (chunk: Buffer) => this.read(chunk));
    socket.on("drain", () => this.onSocketDrain());
    socket.on("end", () => this.onSocketEnd());
    socket.on("error", (cause: Error) => {
      this.endError ??= new Http2Error("connection", ErrorCode.NO_ERROR, `the connection failed: ${cause.message}`, {
        cause,
      });
    });
    socket.on("close", () => this.onSocketClose());
  }

  /** Streams that are open now. */
  get openStreams(): number {
    return this.streams.size;
  }

  get isClosed(): boolean {
    return this.ended;
  }

  /** @internal The peer has sent its SETTINGS. */
  get isSetUp(): boolean {
    return this.settingsReceived;
  }

  /** @internal Something waits for the peer to read it, or to give window. */
  get isStalled(): boolean {
    return this.blocked.size > 0 || this.socket.writableLength > 0;
  }

  /**
   * @internal Changes while the peer takes what waits for it: bodies, if some wait for its window (answers to its PINGs are
   * no progress then), else the octets that its socket took.
   */
  get progressBytes(): number {
    return this.blocked.size > 0 ? this.sentDataBytes : this.output.writtenBytes - this.socket.writableLength;
  }

  /** @internal Reads of the socket so far. */
  reads = 0;

  /** @internal A PING whose answer counts as a read. */
  sendKeepalive(): void {
    this.writePing(keepalivePing);
  }

  /** Octets that wait for the peer: for its reading, or for its window. */
  get queuedBytes(): number {
    return this.output.queuedBytes + this.queuedBodyBytes;
  }

  /** Memory that bodies which have not come whole take now, bytes. */
  get bufferedBytes(): number {
    return this.bufferedBodyBytes;
  }

  /** Ends the connection at once: GOAWAY, and every open stream is aborted. `onClose` gets the error, if there is one. */
  destroy(error?: Http2Error): void {
    if (this.ended) return;
    this.endError ??= error;
    this.writeGoaway(this.lastPeerStreamId(), error?.errorCode ?? ErrorCode.NO_ERROR, error?.message ?? "");
    this.finish(error ?? connectionError(ErrorCode.NO_ERROR, "the connection was closed"));
    // `end`, not `destroy`: the peer should read the GOAWAY. A peer that does not read is cut off by the timer of the owner.
    this.socket.end();
    this.socket.resume();
  }

  // ---- what the owner of the connection decides -----------------------------------------------------------------------

  /** A header block is complete; `block` is undefined when it was larger than allowed. */
  protected abstract onHeaderBlock(streamId: number, block: HeaderBlock | undefined, endStream: boolean): void;
  protected abstract onGoaway(lastStreamId: number, errorCode: number, debug: string): void;
  /** Whether the stream has never been opened. */
  protected abstract isIdle(streamId: number): boolean;
  /** The peer has opened or closed room for streams, or one has ended. */
  protected onRoom(): void {}
  protected onPingAck(_payload: Buffer): void {}
  /** The highest stream of the peer's that we have looked at, for GOAWAY. */
  protected abstract lastPeerStreamId(): number;
  /** Our side of the stream has ended before the peer's. */
  abstract onLocalEnd(stream: Http2Stream): void;
  /** Whether a body may wait for window, beside those that do. */
  abstract mayQueue(): boolean;
  /** The peer has reset a stream; a server bounds how often. False when the connection has been ended for it. */
  protected onPeerReset(): boolean {
    return true;
  }
  /** Checks what only one of the ends may set. */
  protected checkSetting(_id: number, _value: number): void {}
  /** The first SETTINGS have been applied. */
  protected onFirstSettings(): void {}
  /** Octets before the first frame: a server's expects the client's preface. Returns where frames start, or undefined. */
  protected skipPreface(_chunk: Buffer, _end: number): number | undefined {
    return 0;
  }

  // ---- the socket -----------------------------------------------------------------------------------------------------

  /** What the socket has read, `chunk[0, end)`; for owners of connections with `readsAreLent`. */
  read(chunk: Buffer, end: number = chunk.length): void {
    if (this.ended) return;
    this.reads += 1;
    this.output.hold();
    try {
      const start = this.skipPreface(chunk, end);
      if (start !== undefined) this.reader.read(chunk, start, end);
    } catch (cause) {
      this.fail(cause);
    } finally {
      this.output.release();
    }
  }

  /** A peer that does not read what it asked for is not read from either, from the frame on that was too much. */
  private stopReading(): void {
    if (this.ended || this.waitingForDrain) return;
    this.waitingForDrain = true;
    this.socket.pause();
    this.reader.pause();
  }

  private onSocketDrain(): void {
    if (!this.waitingForDrain) return;
    this.waitingForDrain = false;
    this.output.hold();
    try {
      this.reader.resume();
    } catch (cause) {
      this.fail(cause);
    } finally {
      this.output.release();
    }
    // What was kept may have been too much again.
    if (!this.waitsForDrain()) this.socket.resume();
  }

  private waitsForDrain(): boolean {
    return this.waitingForDrain;
  }

  private fail(cause: unknown): void {
    const error =
      cause instanceof Http2Error
        ? cause
        : new Http2Error("connection", ErrorCode.INTERNAL_ERROR, String(cause), { cause });
    this.destroy(error);
  }

  private onSocketEnd(): void {
    this.finish(connectionError(ErrorCode.NO_ERROR, "the peer closed the connection"));
    this.socket.end();
  }

  private onSocketClose(): void {
    this.finish(this.endError ?? connectionError(ErrorCode.NO_ERROR, "the connection was lost"));
    this.events.onClose?.(this.endError);
  }

  private finish(error: Http2Error): void {
    if (this.ended) return;
    this.ended = true;
    this.reader.stop();
    this.output.flush();
    const errorCode = error.errorCode === ErrorCode.NO_ERROR ? ErrorCode.CANCEL : error.errorCode;
    for (const stream of [...this.streams.values()]) this.abortStream(stream, errorCode);
    this.onEnded(error);
  }

  /** All streams have been aborted. */
  protected onEnded(_error: Http2Error): void {}

  // ---- writing --------------------------------------------------------------------------------------------------------

  protected writeSettings(settings: readonly (readonly [id: number, value: number])[]): void {
    this.output.frameHeader(settings.length * 6, FrameType.SETTINGS, 0, 0);
    for (const [id, value] of settings) {
      this.output.uint16(id);
      this.output.uint32(value);
    }
    const extra = this.limits.connectionWindowBytes - DEFAULT_WINDOW_BYTES;
    if (extra > 0) this.output.windowUpdate(0, extra);
  }

  protected writeGoaway(lastStreamId: number, errorCode: number, message: string): void {
    this.goawaySent = true;
    const debug = Buffer.from(errorCode === ErrorCode.NO_ERROR ? "" : message.slice(0, 256), "utf8");
    this.output.frameHeader(8 + debug.length, FrameType.GOAWAY, 0, 0);
    this.output.uint32(lastStreamId);
    this.output.uint32(errorCode);
    this.output.bytes(debug);
  }

  protected writePing(payload: Uint8Array): void {
    this.output.frameHeader(8, FrameType.PING, 0, 0);
    this.output.bytes(payload, 0, 8);
  }

  /** @internal An encoded block, cut into CONTINUATION frames where it is longer than the peer's frames may be. */
  writeHeaders(streamId: number, block: Uint8Array, endStream: boolean): void {
    if (this.ended) return;
    const prefixBytes = this.headerPrefix === undefined ? 0 : 1;
    let end = Math.min(block.length, this.peerMaxFrameBytes - prefixBytes);
    const flags = (endStream ? Flag.END_STREAM : 0) | (end === block.length ? Flag.END_HEADERS : 0);
    this.output.frameHeader(end + prefixBytes, FrameType.HEADERS, flags, streamId);
    if (this.headerPrefix !== undefined) {
      this.output.octet(this.headerPrefix);
      this.headerPrefix = undefined;
    }
    this.output.bytes(block, 0, end);
    while (end < block.length) {
      const start = end;
      end = Math.min(block.length, start + this.peerMaxFrameBytes);
      this.output.frameHeader(
        end - start,
        FrameType.CONTINUATION,
        end === block.length ? Flag.END_HEADERS : 0,
        streamId,
      );
      this.output.bytes(block, start, end);
    }
  }

  /** @internal Sends as much as the windows allow; returns how much. END_STREAM goes with the last octet only. */
  writeData(stream: Http2Stream, piece: Uint8Array, endStream: boolean): number {
    if (this.ended) return piece.length;
    let sent = 0;
    do {
      const left = piece.length - sent;
      const room = Math.min(this.sendWindowBytes, stream.sendWindowBytes, this.peerMaxFrameBytes);
      if (room <= 0 && left > 0) return sent;
      const length = left === 0 ? 0 : Math.min(left, room);
      const isLast = endStream && length === left;
      this.output.frameHeader(length, FrameType.DATA, isLast ? Flag.END_STREAM : 0, stream.id);
      // One for the stream and one for the connection.
      if (length === left || length >= WORTHWHILE_DATA_BYTES) this.earnedWindowUpdates += 2;
      if (length > 0) this.output.bytes(piece, sent, sent + length);
      this.sendWindowBytes -= length;
      this.sentDataBytes += length;
      stream.sendWindowBytes -= length;
      sent += length;
    } while (sent < piece.length);
    return sent;
  }

  /** @internal */
  writeReset(stream: Http2Stream, errorCode: number): void {
    if (this.ended) return;
    this.rememberReset(stream.id);
    this.output.resetStream(stream.id, errorCode);
  }

  /** @internal */
  block(stream: Http2Stream): void {
    this.blocked.add(stream);
  }

  /** @internal So many more octets of bodies wait for window, or fewer. */
  addQueued(bytes: number): void {
    const { maxQueuedBytes } = this.limits;
    const wasFull = this.queuedBodyBytes > maxQueuedBytes;
    this.queuedBodyBytes += bytes;
    if (wasFull && this.queuedBodyBytes <= maxQueuedBytes && !this.ended) this.onRoom();
  }

  /** @internal So much more memory for a body that comes in pieces; false if there is no room for it. */
  addBuffered(bytes: number): boolean {
    if (bytes > 0 && this.bufferedBodyBytes + bytes > this.limits.maxBufferedBytes) return false;
    this.bufferedBodyBytes += bytes;
    return true;
  }

  /** @internal A body for which there is no room. */
  refuseBody(stream: Http2Stream): void {
    this.fault(stream, ErrorCode.ENHANCE_YOUR_CALM);
  }

  /** @internal Octets of the peer's that need its window no more. */
  giveCredit(bytes: number): void {
    this.creditBytes += bytes;
    if (this.creditBytes * 2 < this.limits.connectionWindowBytes || this.ended) return;
    this.output.windowUpdate(0, this.creditBytes);
    this.receiveWindowBytes += this.creditBytes;
    this.creditBytes = 0;
  }

  /** @internal */
  unblock(stream: Http2Stream): void {
    this.blocked.delete(stream);
  }

  /** @internal The stream is closed. */
  forget(stream: Http2Stream): void {
    this.streams.delete(stream.id);
    this.blocked.delete(stream);
    if (!this.ended) this.onRoom();
  }

  protected initialSendWindowBytes(): number {
    return this.peerInitialWindowBytes;
  }

  /** The peer has acknowledged our settings. */
  protected get knowsSettings(): boolean {
    return this.settingsAcknowledged;
  }

  protected initialReceiveWindowBytes(): number {
    // Until it has seen our settings, the peer goes by the protocol's default.
    const { streamWindowBytes } = this.limits;
    return this.settingsAcknowledged ? streamWindowBytes : Math.max(streamWindowBytes, DEFAULT_WINDOW_BYTES);
  }

  /**
   * The peer broke a rule on a stream, and loses it. A peer that does so on purpose makes work that it need not wait for,
   * like one that resets its streams itself: it may do so only so often.
   */
  protected fault(stream: Http2Stream, errorCode: number): void {
    if (this.takeResetToken()) this.guarded(stream, () => stream.reset(errorCode));
  }

  /** Likewise, for a stream that is not open. */
  protected faultUnknown(streamId: number, errorCode: number): void {
    if (this.takeResetToken()) this.resetUnknown(streamId, errorCode);
  }

  protected resetUnknown(streamId: number, errorCode: number): void {
    this.rememberReset(streamId);
    this.output.resetStream(streamId, errorCode);
  }

  /** False when there is none left: then the connection has been ended. */
  protected takeResetToken(): boolean {
    if (this.ended) return false;
    if (this.resetTokens.take()) return true;
    // Not thrown: a stream's handler may be on the stack, and what it throws ends its stream only.
    this.destroy(
      connectionError(
        ErrorCode.ENHANCE_YOUR_CALM,
        `more streams were reset than resetBurst (${this.limits.resetBurst}) allows`,
      ),
    );
    return false;
  }

  protected takeControlToken(what: string): void {
    if (this.controlTokens.take()) return;
    throw connectionError(
      ErrorCode.ENHANCE_YOUR_CALM,
      `more ${what} than controlFrameBurst (${this.limits.controlFrameBurst}) allows`,
    );
  }

  /** Tells a stream's handler that the stream is over; what that throws must not keep the others from being told. */
  protected abortStream(stream: Http2Stream, errorCode: number): void {
    this.guarded(stream, () => stream.abort(errorCode));
  }

  private guarded(stream: Http2Stream, step: () => void): void {
    try {
      step();
    } catch (cause) {
      this.handlerFailed(stream, cause);
    }
  }

  protected wasResetByUs(streamId: number): boolean {
    return this.resets.includes(streamId);
  }

  private rememberReset(streamId: number): void {
    this.resets[this.nextReset] = streamId;
    this.nextReset = (this.nextReset + 1) % REMEMBERED_RESETS;
  }

  // ---- frames ---------------------------------------------------------------------------------------------------------

  onFrameHeader(length: number, type: number, flags: number, streamId: number): PayloadUse {
    if (!this.settingsReceived && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0)) {
      throw connectionError(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS");
    }
    if (this.blockStreamId !== 0 && (type !== FrameType.CONTINUATION || streamId !== this.blockStreamId)) {
      throw connectionError(
        ErrorCode.PROTOCOL_ERROR,
        `a frame inside the header block of stream ${this.blockStreamId}`,
      );
    }
    this.frameType = type;
    this.frameFlags = flags;
    this.frameStreamId = streamId;
    this.frameLength = length;
    switch (type) {
      case FrameType.DATA:
        this.beginData(length, flags, streamId);
        return "pieces";
      case FrameType.HEADERS:
        if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0");
        return "whole";
      case FrameType.CONTINUATION:
        if (this.blockStreamId === 0)
          throw connectionError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without a header block");
        return "whole";
      case FrameType.WINDOW_UPDATE:
        if (this.earnedWindowUpdates > 0) this.earnedWindowUpdates -= 1;
        else this.takeControlToken("WINDOW_UPDATE frames without data");
        return this.whole(4);
      case FrameType.RST_STREAM:
        this.takeControlToken("RST_STREAM frames");
        return this.whole(4);
      case FrameType.PING:
        this.takeControlToken("PING frames");
        return this.whole(8);
      case FrameType.PRIORITY:
        this.takeControlToken("PRIORITY frames");
        if (length === 5) return "whole";
        if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0");
        this.streamError(streamId, ErrorCode.FRAME_SIZE_ERROR);
        return "drop";
      case FrameType.SETTINGS:
        this.takeControlToken("SETTINGS frames");
        if (length > MAX_SETTINGS_IN_FRAME * 6)
          throw connectionError(ErrorCode.ENHANCE_YOUR_CALM, `${length / 6} settings in one frame`);
        return "whole";
      case FrameType.GOAWAY:
        this.takeControlToken("GOAWAY frames");
        return "whole";
      case FrameType.PUSH_PROMISE:
        throw connectionError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, though push is off");
      default:
        // Section 4.1: a frame of unknown type is ignored.
        this.takeControlToken("frames of unknown types");
        return "drop";
    }
  }

  /** Frames of one size are refused by their header, before a peer can make us wait for them. */
  private whole(bytes: number): PayloadUse {
    if (this.frameLength === bytes) return "whole";
    throw connectionError(
      ErrorCode.FRAME_SIZE_ERROR,
      `a frame of type ${this.frameType} and ${this.frameLength} bytes, expected ${bytes}`,
    );
  }

  onFrame(payload: Buffer, start: number, end: number): void {
    switch (this.frameType) {
      case FrameType.HEADERS:
        return this.onHeadersFrame(payload, start, end);
      case FrameType.PRIORITY:
        return this.onPriority(payload, start);
      case FrameType.RST_STREAM:
        return this.onRstStream(payload, start);
      case FrameType.SETTINGS:
        return this.onSettings(payload, start, end);
      case FrameType.PING:
        return this.onPing(payload, start);
      case FrameType.GOAWAY:
        return this.onGoawayFrame(payload, start, end);
      case FrameType.WINDOW_UPDATE:
        return this.onWindowUpdate(payload, start);
      case FrameType.CONTINUATION:
        return this.onContinuation(payload, start, end);
      default:
        return undefined;
    }
  }

  private beginData(length: number, flags: number, streamId: number): void {
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "DATA on stream 0");
    // Flow control counts the whole payload, padding too, also of a stream that is no longer there (section 6.9).
    this.receiveWindowBytes -= length;
    if (this.receiveWindowBytes < 0) {
      throw connectionError(
        ErrorCode.FLOW_CONTROL_ERROR,
        `more data than the connection's window of ${this.limits.connectionWindowBytes} bytes`,
      );
    }
    if (length === 0 && (flags & Flag.END_STREAM) === 0) this.takeControlToken("empty DATA frames");
    this.paddingBytes = (flags & Flag.PADDED) === 0 ? 0 : -1;
    this.dataBytesLeft = length;
    if (this.paddingBytes < 0 && length === 0)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "a padded DATA frame without a pad length");
    const stream = this.streams.get(streamId);
    if (stream === undefined) {
      if (this.isIdle(streamId))
        throw connectionError(ErrorCode.PROTOCOL_ERROR, `DATA on stream ${streamId}, which is idle`);
      if (!this.wasResetByUs(streamId)) this.closedStreamError(streamId, "DATA");
      this.dataStream = undefined;
      return;
    }
    this.dataStream = undefined;
    if (stream.remoteEnded) return this.fault(stream, ErrorCode.STREAM_CLOSED);
    // A response starts with its headers (section 8.1).
    if (stream.headers === undefined) return this.fault(stream, ErrorCode.PROTOCOL_ERROR);
    stream.receiveWindowBytes -= length;
    if (stream.receiveWindowBytes < 0) return this.fault(stream, ErrorCode.FLOW_CONTROL_ERROR);
    this.dataStream = stream;
    return undefined;
  }

  onDataPiece(bytes: Buffer, start: number, end: number, ends: boolean): void {
    const length = end - start;
    const stream = this.dataStream;
    if (stream === undefined || stream.closed) return this.giveCredit(length);
    stream.creditBytes += length;
    // What a paused stream holds is not given back, so that all of them together hold no more than the window.
    if (stream.isPaused) stream.heldBytes += length;
    else this.giveCredit(length);
    let from = start;
    this.dataBytesLeft -= length;
    if (this.paddingBytes < 0 && from < end) {
      this.paddingBytes = bytes[from++] as number;
      if (this.paddingBytes >= this.frameLength) {
        throw connectionError(
          ErrorCode.PROTOCOL_ERROR,
          `a padding of ${this.paddingBytes} bytes in a DATA frame of ${this.frameLength}`,
        );
      }
      if (this.paddingBytes === this.frameLength - 1 && (this.frameFlags & Flag.END_STREAM) === 0)
        this.takeControlToken("DATA frames of padding only");
    }
    // What is left of the frame after this piece may be padding only, and so may the end of this piece.
    const to = Math.max(from, end - Math.max(0, this.paddingBytes - this.dataBytesLeft));
    const endStream = ends && (this.frameFlags & Flag.END_STREAM) !== 0;
    return this.deliver(stream, bytes, from, to, endStream);
  }

  private deliver(stream: Http2Stream, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    const { declaredBytes } = stream;
    if (declaredBytes !== undefined) {
      const received = stream.receivedBytes + to - from;
      if (received > declaredBytes || (endStream && received !== declaredBytes))
        return this.fault(stream, ErrorCode.PROTOCOL_ERROR);
    }
    try {
      if (endStream) stream.remoteEnding = true;
      if (to > from || endStream) stream.receive(bytes, from, to, endStream);
      if (stream.closed) return undefined;
      if (endStream) stream.endRemote(undefined);
      else stream.giveCredit();
    } catch (cause) {
      this.handlerFailed(stream, cause);
    }
    return undefined;
  }

  /** A mistake of a stream's handler ends its own stream only. */
  protected handlerFailed(stream: Http2Stream, cause: unknown): void {
    this.events.onHandlerError?.(cause);
    if (stream.closed) return;
    // What `onReset` may throw now is told too, and by then the stream is closed.
    this.guarded(stream, () => stream.reset(ErrorCode.INTERNAL_ERROR));
  }

  private onHeadersFrame(payload: Buffer, start: number, end: number): void {
    const flags = this.frameFlags;
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
      if (to - from < 5)
        throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame too short for its priority");
      if ((payload.readUInt32BE(from) & LARGEST_STREAM_ID) === this.frameStreamId) {
        throw connectionError(ErrorCode.PROTOCOL_ERROR, `stream ${this.frameStreamId} depends on itself`);
      }
      from += 5;
    }
    this.blockStreamId = this.frameStreamId;
    this.blockEndsStream = (flags & Flag.END_STREAM) !== 0;
    this.blockBytes = 0;
    if ((flags & Flag.END_HEADERS) !== 0) {
      this.countBlock(to - from, 1);
      return this.endBlock(payload, from, to);
    }
    this.blockPieces = [];
    return this.addToBlock(payload, from, to);
  }

  private onContinuation(payload: Buffer, start: number, end: number): void {
    this.addToBlock(payload, start, end);
    if ((this.frameFlags & Flag.END_HEADERS) === 0) return;
    const whole = Buffer.concat(this.blockPieces);
    this.blockPieces = [];
    this.endBlock(whole, 0, whole.length);
  }

  private addToBlock(payload: Buffer, start: number, end: number): void {
    this.blockPieces.push(Buffer.copyBytesFrom(payload, start, end - start));
    this.countBlock(end - start, this.blockPieces.length);
  }

  private countBlock(bytes: number, frames: number): void {
    this.blockBytes += bytes;
    const { maxContinuations, maxHeaderListBytes } = this.limits;
    if (frames > maxContinuations + 1 || this.blockBytes > ENCODED_BYTES_PER_LISTED * maxHeaderListBytes) {
      throw connectionError(
        ErrorCode.ENHANCE_YOUR_CALM,
        `a header block of ${this.blockBytes} bytes in ${frames} frames; limits: maxHeaderListBytes ${maxHeaderListBytes}, maxContinuations ${maxContinuations}`,
      );
    }
  }

  private endBlock(source: Buffer, start: number, end: number): void {
    const streamId = this.blockStreamId;
    this.blockStreamId = 0;
    const block = this.decoder.decode(source, start, end);
    this.onHeaderBlock(streamId, block, this.blockEndsStream);
  }

  private onPriority(payload: Buffer, start: number): void {
    const streamId = this.frameStreamId;
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0");
    if ((payload.readUInt32BE(start) & LARGEST_STREAM_ID) === streamId)
      this.streamError(streamId, ErrorCode.PROTOCOL_ERROR);
  }

  private onRstStream(payload: Buffer, start: number): void {
    const streamId = this.frameStreamId;
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "RST_STREAM on stream 0");
    if (this.isIdle(streamId))
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `RST_STREAM on stream ${streamId}, which is idle`);
    const stream = this.streams.get(streamId);
    if (stream === undefined) return;
    if (!this.onPeerReset()) return;
    const errorCode = payload.readUInt32BE(start);
    // A server that has answered needs no more of the request (section 8.1): that is no failure.
    if (errorCode === ErrorCode.NO_ERROR && stream.remoteEnded) this.guarded(stream, () => stream.discardRest());
    else this.abortStream(stream, errorCode);
  }

  private onSettings(payload: Buffer, start: number, end: number): void {
    if (this.frameStreamId !== 0)
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS on stream ${this.frameStreamId}`);
    if ((this.frameFlags & Flag.ACK) !== 0) {
      if (this.frameLength !== 0)
        throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS with a payload");
      this.settingsAcknowledged = true;
      this.decoder.limitTable(this.limits.headerTableBytes);
      return;
    }
    if (this.frameLength % 6 !== 0)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `SETTINGS of ${this.frameLength} bytes`);
    for (let at = start; at < end; at += 6) this.applySetting(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    this.output.frameHeader(0, FrameType.SETTINGS, Flag.ACK, 0);
    if (!this.settingsReceived) {
      this.settingsReceived = true;
      this.onFirstSettings();
    }
    this.flushBlocked();
    this.onRoom();
  }

  private applySetting(id: number, value: number): void {
    this.checkSetting(id, value);
    switch (id) {
      case Setting.HEADER_TABLE_SIZE:
        // We put nothing into the peer's table, but must say so once it may have become smaller (RFC 7541, section 4.2).
        if (value < this.announcedTableBytes) {
          this.announcedTableBytes = 0;
          this.headerPrefix = 0x20;
        }
        break;
      case Setting.ENABLE_PUSH:
        if (value > 1) throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS_ENABLE_PUSH is ${value}`);
        break;
      case Setting.MAX_CONCURRENT_STREAMS:
        this.peerMaxConcurrentStreams = value;
        break;
      case Setting.INITIAL_WINDOW_SIZE: {
        if (value > LARGEST_WINDOW_BYTES)
          throw connectionError(ErrorCode.FLOW_CONTROL_ERROR, `SETTINGS_INITIAL_WINDOW_SIZE is ${value}`);
        const change = value - this.peerInitialWindowBytes;
        this.peerInitialWindowBytes = value;
        for (const stream of this.streams.values()) {
          stream.sendWindowBytes += change;
          if (stream.sendWindowBytes > LARGEST_WINDOW_BYTES)
            throw connectionError(ErrorCode.FLOW_CONTROL_ERROR, `the window of stream ${stream.id} is too large`);
        }
        break;
      }
      case Setting.MAX_FRAME_SIZE:
        if (value < DEFAULT_MAX_FRAME_BYTES || value > LARGEST_MAX_FRAME_BYTES)
          throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS_MAX_FRAME_SIZE is ${value}`);
        this.peerMaxFrameBytes = value;
        break;
      default:
      // Section 6.5.2: a setting that is not known is ignored.
    }
  }

  private onPing(payload: Buffer, start: number): void {
    if (this.frameStreamId !== 0)
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `PING on stream ${this.frameStreamId}`);
    if ((this.frameFlags & Flag.ACK) !== 0) return this.onPingAck(payload.subarray(start, start + 8));
    this.output.frameHeader(8, FrameType.PING, Flag.ACK, 0);
    return this.output.bytes(payload, start, start + 8);
  }

  private onGoawayFrame(payload: Buffer, start: number, end: number): void {
    if (this.frameStreamId !== 0)
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `GOAWAY on stream ${this.frameStreamId}`);
    if (this.frameLength < 8) throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `GOAWAY of ${this.frameLength} bytes`);
    this.goawayReceived = true;
    const debug = payload.toString("utf8", start + 8, Math.min(end, start + 8 + 256));
    this.onGoaway(payload.readUInt32BE(start) & LARGEST_STREAM_ID, payload.readUInt32BE(start + 4), debug);
  }

  private onWindowUpdate(payload: Buffer, start: number): void {
    const streamId = this.frameStreamId;
    const increment = payload.readUInt32BE(start) & LARGEST_WINDOW_BYTES;
    if (streamId === 0) {
      if (increment === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0");
      this.sendWindowBytes += increment;
      if (this.sendWindowBytes > LARGEST_WINDOW_BYTES)
        throw connectionError(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window is too large");
      return this.flushBlocked();
    }
    const stream = this.streams.get(streamId);
    if (stream === undefined) {
      if (this.isIdle(streamId))
        throw connectionError(ErrorCode.PROTOCOL_ERROR, `WINDOW_UPDATE on stream ${streamId}, which is idle`);
      // It may have been sent before the peer knew that the stream was closed.
      return undefined;
    }
    if (increment === 0) return this.fault(stream, ErrorCode.PROTOCOL_ERROR);
    stream.sendWindowBytes += increment;
    if (stream.sendWindowBytes > LARGEST_WINDOW_BYTES) return this.fault(stream, ErrorCode.FLOW_CONTROL_ERROR);
    if (this.blocked.has(stream)) this.flushStream(stream);
    return undefined;
  }

  private flushBlocked(): void {
    let left = this.blocked.size;
    for (const stream of this.blocked) {
      // Those that block again are at the end of the set.
      if (left-- === 0) return;
      this.flushStream(stream);
      if (this.sendWindowBytes > 0) continue;
      // The window is used up: the next one goes to the streams that have waited.
      if (this.blocked.delete(stream)) this.blocked.add(stream);
      return;
    }
  }

  private flushStream(stream: Http2Stream): void {
    this.guarded(stream, () => stream.flushQueue());
  }

  private streamError(streamId: number, errorCode: number): void {
    const stream = this.streams.get(streamId);
    if (stream === undefined) this.faultUnknown(streamId, errorCode);
    else this.fault(stream, errorCode);
  }

  /** A frame on a stream that is closed, and not by our reset. */
  protected closedStreamError(streamId: number, what: string): void {
    this.takeControlToken(`${what} frames on closed streams`);
    this.resetUnknown(streamId, ErrorCode.STREAM_CLOSED);
  }
}
