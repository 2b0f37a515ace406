import type { Duplex } from "node:stream";
import { FrameReader, type FrameSink } from "./frame-reader.ts";
import type { HeaderBlock } from "./header-block.ts";
import { HpackDecoder } from "./hpack-decoder.ts";
import { Http2Error } from "./http2-error.ts";
import { fillLimits, type ConnectionLimits } from "./limits.ts";
import { Output } from "./output.ts";
import {
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
const REMEMBERED_RESETS = 256;

const keepalivePing = Buffer.from("keepaliv", "latin1");

function connectionError(errorCode: number, message: string): Http2Error {
  return new Http2Error("connection", errorCode, message);
}

export interface ConnectionEvents {
  /** The connection has ended; `error` says why if it was not at either side's wish. Called once. */
  onClose?(error: Http2Error | undefined): void;
  /** A stream's handler threw `cause`; its stream has been reset with INTERNAL_ERROR. */
  onHandlerError?(cause: unknown): void;
}

/**
 * What both ends of an HTTP/2 connection share (RFC 9113): frames, settings, flow control, PING, GOAWAY, and the streams.
 *
 * Invariants: `streams` holds exactly the streams that are not closed; a stream is in `blocked` exactly while it has queued
 * data; the sum of the peer's use of its window and the credit given back is what it has sent.
 */
export abstract class Http2Connection implements FrameSink {
  readonly limits: ConnectionLimits;
  /** @internal */ readonly output: Output;
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
  private announcedTableBytes = 4096;
  private sendWindowBytes = DEFAULT_WINDOW_BYTES;
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

  constructor(socket: Duplex, limits: Partial<ConnectionLimits>, events: ConnectionEvents, nowMs: () => number) {
    this.limits = fillLimits(limits);
    this.socket = socket;
    this.events = events;
    this.nowMs = nowMs;
    this.output = new Output(socket);
    this.reader = new FrameReader(this, this.limits.maxFrameBytes);
    this.decoder = new HpackDecoder({
      maxTableBytes: this.limits.headerTableBytes,
      maxHeaderListBytes: this.limits.maxHeaderListBytes,
    });
    this.receiveWindowBytes = this.limits.connectionWindowBytes;
    this.controlTokens = new TokenBucket(this.limits.controlFrameBurst, nowMs);
    this.resetTokens = new TokenBucket(this.limits.resetBurst, nowMs);
    socket.on("data", (chunk: Buffer) => this.onSocketData(chunk));
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

  /** @internal Octets that were handed to the socket and taken by it. */
  get sentBytes(): number {
    return this.output.writtenBytes - this.socket.writableLength;
  }

  /** @internal Reads of the socket so far. */
  reads = 0;

  /** @internal A PING whose answer counts as a read. */
  sendKeepalive(): void {
    this.writePing(keepalivePing);
  }

  /** Octets of replies that the peer has not read. */
  get queuedBytes(): number {
    return this.output.queuedBytes;
  }

  /** Ends the connection at once: GOAWAY, and every open stream is aborted. */
  destroy(error: Http2Error = connectionError(ErrorCode.NO_ERROR, "the connection was closed")): void {
    if (this.ended) return;
    this.endError ??= error.errorCode === ErrorCode.NO_ERROR ? undefined : error;
    this.writeGoaway(this.lastStreamId, error.errorCode, error.message);
    this.finish(error);
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
  /** Octets before the first frame: a server's expects the client's preface. Returns where frames start, or undefined. */
  protected skipPreface(_chunk: Buffer): number | undefined {
    return 0;
  }

  // ---- the socket -----------------------------------------------------------------------------------------------------

  /** @internal Octets that were read before the connection took the socket over. */
  onSocketData(chunk: Buffer): void {
    if (this.ended) return;
    this.reads += 1;
    this.output.hold();
    try {
      const start = this.skipPreface(chunk);
      if (start !== undefined) this.reader.read(chunk, start);
    } catch (cause) {
      const error =
        cause instanceof Http2Error
          ? cause
          : new Http2Error("connection", ErrorCode.INTERNAL_ERROR, String(cause), { cause });
      this.destroy(error);
    } finally {
      this.output.release();
    }
    this.checkOutput();
  }

  /** A peer that does not read what it asked for is not read from either. */
  private checkOutput(): void {
    if (this.ended || this.waitingForDrain || this.socket.writableLength <= this.limits.maxOutputBytes) return;
    this.waitingForDrain = true;
    this.socket.pause();
  }

  private onSocketDrain(): void {
    if (!this.waitingForDrain) return;
    this.waitingForDrain = false;
    this.socket.resume();
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
    for (const stream of [...this.streams.values()]) stream.abort(errorCode);
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
      if (length > 0) this.output.bytes(piece, sent, sent + length);
      this.sendWindowBytes -= length;
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

  protected initialReceiveWindowBytes(): number {
    // Until it has seen our settings, the peer goes by the protocol's default.
    const { streamWindowBytes } = this.limits;
    return this.settingsAcknowledged ? streamWindowBytes : Math.max(streamWindowBytes, DEFAULT_WINDOW_BYTES);
  }

  protected resetUnknown(streamId: number, errorCode: number): void {
    this.rememberReset(streamId);
    this.output.resetStream(streamId, errorCode);
  }

  protected wasResetByUs(streamId: number): boolean {
    return this.resets.includes(streamId);
  }

  private rememberReset(streamId: number): void {
    this.resets[this.nextReset] = streamId;
    this.nextReset = (this.nextReset + 1) % REMEMBERED_RESETS;
  }

  // ---- frames ---------------------------------------------------------------------------------------------------------

  onFrameHeader(length: number, type: number, flags: number, streamId: number): void {
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
        break;
      case FrameType.HEADERS:
        if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0");
        break;
      case FrameType.WINDOW_UPDATE:
        break;
      case FrameType.CONTINUATION:
        if (this.blockStreamId === 0)
          throw connectionError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without a header block");
        break;
      default:
        if (!this.controlTokens.take()) {
          throw connectionError(
            ErrorCode.ENHANCE_YOUR_CALM,
            `more control frames than controlFrameBurst (${this.limits.controlFrameBurst}) allows`,
          );
        }
    }
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
      case FrameType.PUSH_PROMISE:
        throw connectionError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, though push is off");
      case FrameType.PING:
        return this.onPing(payload, start);
      case FrameType.GOAWAY:
        return this.onGoawayFrame(payload, start, end);
      case FrameType.WINDOW_UPDATE:
        return this.onWindowUpdate(payload, start);
      case FrameType.CONTINUATION:
        return this.onContinuation(payload, start, end);
      default:
        // Section 4.1: a frame of unknown type is ignored.
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
    if (length === 0 && (flags & Flag.END_STREAM) === 0 && !this.controlTokens.take()) {
      throw connectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many empty DATA frames");
    }
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
    if (stream.remoteEnded) {
      this.dataStream = undefined;
      stream.reset(ErrorCode.STREAM_CLOSED);
      return;
    }
    stream.receiveWindowBytes -= length;
    if (stream.receiveWindowBytes < 0) {
      this.dataStream = undefined;
      stream.reset(ErrorCode.FLOW_CONTROL_ERROR);
      return;
    }
    this.dataStream = stream;
  }

  onDataPiece(bytes: Buffer, start: number, end: number, ends: boolean): void {
    this.creditBytes += end - start;
    if (this.creditBytes * 2 >= this.limits.connectionWindowBytes) {
      this.output.windowUpdate(0, this.creditBytes);
      this.receiveWindowBytes += this.creditBytes;
      this.creditBytes = 0;
    }
    const stream = this.dataStream;
    if (stream === undefined || stream.closed) return;
    stream.creditBytes += end - start;
    let from = start;
    this.dataBytesLeft -= end - start;
    if (this.paddingBytes < 0 && from < end) {
      this.paddingBytes = bytes[from++] as number;
      if (this.paddingBytes > this.frameLength - 1) {
        throw connectionError(
          ErrorCode.PROTOCOL_ERROR,
          `a padding of ${this.paddingBytes} bytes in a DATA frame of ${this.frameLength}`,
        );
      }
    }
    // What is left of the frame after this piece may be padding only, and so may the end of this piece.
    const to = Math.max(from, end - Math.max(0, this.paddingBytes - this.dataBytesLeft));
    const endStream = ends && (this.frameFlags & Flag.END_STREAM) !== 0;
    try {
      this.deliver(stream, bytes, from, to, endStream);
    } catch (cause) {
      this.handlerFailed(stream, cause);
    }
  }

  private deliver(stream: Http2Stream, bytes: Buffer, from: number, to: number, endStream: boolean): void {
    if (to > from || endStream) stream.receive(bytes, from, to, endStream);
    if (stream.closed) return;
    if (
      stream.declaredBytes !== undefined &&
      (stream.receivedBytes > stream.declaredBytes || (endStream && stream.receivedBytes !== stream.declaredBytes))
    ) {
      stream.reset(ErrorCode.PROTOCOL_ERROR);
    } else if (endStream) {
      stream.endRemote(undefined);
    } else {
      stream.giveCredit();
    }
  }

  /** A mistake of a stream's handler ends its own stream only. */
  protected handlerFailed(stream: Http2Stream, cause: unknown): void {
    if (cause instanceof Http2Error) throw cause;
    stream.reset(ErrorCode.INTERNAL_ERROR);
    this.events.onHandlerError?.(cause);
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
    if ((flags & Flag.END_HEADERS) !== 0) return this.endBlock(payload, from, to);
    this.blockBytes = 0;
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
    this.blockPieces.push(payload.subarray(start, end));
    this.blockBytes += end - start;
    const { maxContinuations, maxHeaderListBytes } = this.limits;
    // An encoded list is hardly ever longer than the list; twice that leaves room for size updates and long integers.
    if (this.blockPieces.length > maxContinuations + 1 || this.blockBytes > 2 * maxHeaderListBytes) {
      throw connectionError(
        ErrorCode.ENHANCE_YOUR_CALM,
        `a header block of ${this.blockBytes} bytes in ${this.blockPieces.length} frames; limits: maxHeaderListBytes ${maxHeaderListBytes}, maxContinuations ${maxContinuations}`,
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
    const isWrong = this.frameLength !== 5;
    if (!isWrong && (payload.readUInt32BE(start) & LARGEST_STREAM_ID) !== streamId) return;
    this.streamError(streamId, isWrong ? ErrorCode.FRAME_SIZE_ERROR : ErrorCode.PROTOCOL_ERROR);
  }

  private onRstStream(payload: Buffer, start: number): void {
    const streamId = this.frameStreamId;
    if (streamId === 0) throw connectionError(ErrorCode.PROTOCOL_ERROR, "RST_STREAM on stream 0");
    if (this.frameLength !== 4)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `RST_STREAM of ${this.frameLength} bytes`);
    if (this.isIdle(streamId))
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `RST_STREAM on stream ${streamId}, which is idle`);
    const stream = this.streams.get(streamId);
    if (stream === undefined) return;
    if (!this.resetTokens.take()) {
      throw connectionError(
        ErrorCode.ENHANCE_YOUR_CALM,
        `more resets than resetBurst (${this.limits.resetBurst}) allows`,
      );
    }
    try {
      stream.abort(payload.readUInt32BE(start));
    } catch (cause) {
      this.handlerFailed(stream, cause);
    }
  }

  private onSettings(payload: Buffer, start: number, end: number): void {
    if (this.frameStreamId !== 0)
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `SETTINGS on stream ${this.frameStreamId}`);
    this.settingsReceived = true;
    if ((this.frameFlags & Flag.ACK) !== 0) {
      if (this.frameLength !== 0)
        throw connectionError(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS with a payload");
      this.settingsAcknowledged = true;
      return;
    }
    if (this.frameLength % 6 !== 0)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `SETTINGS of ${this.frameLength} bytes`);
    for (let at = start; at < end; at += 6) this.applySetting(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    this.output.frameHeader(0, FrameType.SETTINGS, Flag.ACK, 0);
    this.flushBlocked();
    this.onRoom();
  }

  private applySetting(id: number, value: number): void {
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
    if (this.frameLength !== 8) throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `PING of ${this.frameLength} bytes`);
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
    if (this.frameLength !== 4)
      throw connectionError(ErrorCode.FRAME_SIZE_ERROR, `WINDOW_UPDATE of ${this.frameLength} bytes`);
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
      // It may have been sent before the peer knew that the stream was closed; each costs a token all the same.
      if (!this.controlTokens.take())
        throw connectionError(ErrorCode.ENHANCE_YOUR_CALM, "too many frames on closed streams");
      return undefined;
    }
    if (increment === 0) return stream.reset(ErrorCode.PROTOCOL_ERROR);
    stream.sendWindowBytes += increment;
    if (stream.sendWindowBytes > LARGEST_WINDOW_BYTES) return stream.reset(ErrorCode.FLOW_CONTROL_ERROR);
    if (this.blocked.has(stream)) this.flushStream(stream);
    return undefined;
  }

  private flushBlocked(): void {
    if (this.blocked.size === 0) return;
    for (const stream of [...this.blocked]) {
      if (this.sendWindowBytes <= 0) return;
      this.flushStream(stream);
    }
  }

  private flushStream(stream: Http2Stream): void {
    try {
      stream.flushQueue();
    } catch (cause) {
      this.handlerFailed(stream, cause);
    }
  }

  private streamError(streamId: number, errorCode: number): void {
    const stream = this.streams.get(streamId);
    if (stream === undefined) this.resetUnknown(streamId, errorCode);
    else stream.reset(errorCode);
  }

  /** A frame on a stream that is closed, and not by our reset. */
  protected closedStreamError(streamId: number, what: string): void {
    if (!this.controlTokens.take())
      throw connectionError(ErrorCode.ENHANCE_YOUR_CALM, `too many ${what} frames on closed streams`);
    this.resetUnknown(streamId, ErrorCode.STREAM_CLOSED);
  }
}
