import type { Duplex } from "node:stream";
import { ControlFrames } from "./control-frames.ts";
import { DataReceiver } from "./data-receiver.ts";
import { FrameDispatcher } from "./frame-dispatcher.ts";
import { FrameReader } from "./frame-reader.ts";
import { writeGoaway, writeHeaderBlock, writePing, writeSettings } from "./frame-writer.ts";
import { HeaderAssembler, type HeaderBlockSink } from "./header-assembler.ts";
import type { HeaderBlock } from "./header-block.ts";
import { HpackDecoder } from "./hpack-decoder.ts";
import { connectionError, Http2Error } from "./http2-error.ts";
import { fillLimits, type ConnectionLimits } from "./limits.ts";
import { Output } from "./output.ts";
import { PeerBudget } from "./peer-budget.ts";
import { PeerSettings } from "./peer-settings.ts";
import { DEFAULT_HEADER_TABLE_BYTES, DEFAULT_WINDOW_BYTES, ErrorCode } from "./protocol.ts";
import { ReceiveWindow } from "./receive-window.ts";
import { SendWindow } from "./send-window.ts";
import { StreamTable, type StreamTableOwner } from "./stream-table.ts";
import type { Http2Stream } from "./stream.ts";

const keepalivePing = Buffer.from("keepaliv", "latin1");

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
 * What both ends of an HTTP/2 connection share (RFC 9113): the socket, how the connection begins and ends, and what its parts
 * (frames, settings, flow control, streams) tell each other.
 *
 * Invariant: `queuedBodyBytes` and `bufferedBodyBytes` are the sums over the open streams.
 */
export abstract class Http2Connection implements HeaderBlockSink, StreamTableOwner {
  readonly limits: ConnectionLimits;
  /** @internal */ readonly output: Output;
  /** @internal */ readonly streams: StreamTable;
  /** @internal */ readonly peer: PeerSettings;
  /** @internal */ readonly sendWindow: SendWindow;
  /** @internal What is read is valid until the call that hands it over returns: whoever keeps some of it makes a copy. */
  readonly readsAreLent: boolean;
  protected readonly socket: Duplex;
  protected readonly budget: PeerBudget;
  protected readonly control: ControlFrames;
  protected readonly nowMs: () => number;
  /** The highest stream that the peer has opened (a server's) or that we have (a client's). */
  protected lastStreamId = 0;
  private readonly events: ConnectionEvents;
  private readonly decoder: HpackDecoder;
  private readonly reader: FrameReader;
  private readonly receiveWindow: ReceiveWindow;
  /** Bodies of ours that wait for window. */
  protected queuedBodyBytes = 0;
  /** Memory of the peer's bodies that are not whole yet. */
  private bufferedBodyBytes = 0;
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
    const { headerTableBytes, maxHeaderListBytes, connectionWindowBytes, maxOutputBytes, maxFrameBytes } = this.limits;
    this.output = new Output(socket, maxOutputBytes, () => this.stopReading());
    this.peer = new PeerSettings();
    this.budget = new PeerBudget(this.limits, nowMs);
    this.streams = new StreamTable(this, this.output, this.budget);
    this.sendWindow = new SendWindow(this.output, this.peer, this.budget);
    this.receiveWindow = new ReceiveWindow(this.output, connectionWindowBytes);
    // Until it has seen our settings, the peer goes by the protocol's default.
    this.decoder = new HpackDecoder({
      initialTableBytes: DEFAULT_HEADER_TABLE_BYTES,
      maxTableBytes: Math.max(headerTableBytes, DEFAULT_HEADER_TABLE_BYTES),
      maxHeaderListBytes,
    });
    this.control = new ControlFrames(this);
    const frames = new FrameDispatcher(
      new HeaderAssembler(this, this.decoder, this.limits),
      new DataReceiver(this.streams, this.receiveWindow, this.budget),
      this.control,
      this.streams,
      this.budget,
    );
    this.reader = new FrameReader(frames, maxFrameBytes);
    this.listen();
  }

  private listen(): void {
    const { socket } = this;
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
    return this.control.settingsReceived;
  }

  /** @internal Something waits for the peer to read it, or to give window. */
  get isStalled(): boolean {
    return this.sendWindow.streamsWait || this.socket.writableLength > 0;
  }

  /**
   * @internal Changes while the peer takes what waits for it: bodies, if some wait for its window (answers to its PINGs are
   * no progress then), else the octets that its socket took.
   */
  get progressBytes(): number {
    return this.sendWindow.streamsWait
      ? this.sendWindow.sentBytes
      : this.output.writtenBytes - this.socket.writableLength;
  }

  /** @internal Reads of the socket so far. */
  reads = 0;

  /** @internal A PING whose answer counts as a read. */
  sendKeepalive(): void {
    writePing(this.output, keepalivePing);
  }

  /** Octets that wait for the peer: for its reading, or for its window. */
  get queuedBytes(): number {
    return this.output.queuedBytes + this.queuedBodyBytes;
  }

  /** Memory that bodies which have not come whole take now, bytes. */
  get bufferedBytes(): number {
    return this.bufferedBodyBytes;
  }

  /** Ends the connection when its open streams have ended. */
  abstract drain(): void;

  /** Ends the connection at once: GOAWAY, and every open stream is aborted. `onClose` gets the error, if there is one. */
  destroy(error?: Http2Error): void {
    if (this.ended) return;
    this.endError ??= error;
    writeGoaway(this.output, this.lastPeerStreamId(), error?.errorCode ?? ErrorCode.NO_ERROR, error?.message ?? "");
    this.finish(error ?? connectionError(ErrorCode.NO_ERROR, "the connection was closed"));
    // `end`, not `destroy`: the peer should read the GOAWAY. A peer that does not read is cut off by the timer of the owner.
    this.socket.end();
    this.socket.resume();
  }

  // ---- what the ends of a connection do differently -------------------------------------------------------------------

  /** @internal */
  abstract onHeaderBlock(streamId: number, block: HeaderBlock | undefined, endStream: boolean): void;
  /** @internal */
  abstract onGoaway(lastStreamId: number, errorCode: number, debug: string): void;
  /** @internal Our side of the stream has ended before the peer's. */
  abstract onLocalEnd(stream: Http2Stream): void;
  /** @internal */
  abstract onPeerReset(stream: Http2Stream, errorCode: number): void;
  /** @internal Whether a body may wait for window, beside those that do. */
  abstract mayQueue(): boolean;
  /** The highest stream of the peer's that we have looked at, for GOAWAY. */
  protected abstract lastPeerStreamId(): number;
  /** @internal The peer has opened or closed room for streams, or one has ended. */
  onRoom(): void {}
  /** @internal */
  onPingAck(_payload: Buffer): void {}
  /** @internal The peer was told that this end drains, and has not shown yet that it knows. */
  get drainIsUnanswered(): boolean {
    return false;
  }
  /** @internal The peer has had its time to answer. */
  refuseStreams(): void {}
  /** @internal Checks what only one of the ends may set. */
  checkSetting(_id: number, _value: number): void {}
  /** @internal The first SETTINGS have been applied. */
  onFirstSettings(): void {}
  /** All streams have been aborted. */
  protected onEnded(_error: Http2Error): void {}
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
    this.receiveWindow.stop();
    this.output.flush();
    const errorCode = error.errorCode === ErrorCode.NO_ERROR ? ErrorCode.CANCEL : error.errorCode;
    for (const stream of this.streams.all()) this.streams.abort(stream, errorCode);
    this.onEnded(error);
  }

  // ---- settings -------------------------------------------------------------------------------------------------------

  /** Tells the peer what we take, its first octets from us, and how much more data than by default. */
  protected announce(settings: readonly (readonly [id: number, value: number])[]): void {
    writeSettings(this.output, settings);
    const extra = this.limits.connectionWindowBytes - DEFAULT_WINDOW_BYTES;
    if (extra > 0) this.output.windowUpdate(0, extra);
  }

  /** @internal From here on the peer keeps to what we have announced. */
  onSettingsAcknowledged(): void {
    this.decoder.limitTable(this.limits.headerTableBytes);
  }

  protected initialReceiveWindowBytes(): number {
    // Until it has seen our settings, the peer goes by the protocol's default.
    const { streamWindowBytes } = this.limits;
    return this.control.settingsAcknowledged ? streamWindowBytes : Math.max(streamWindowBytes, DEFAULT_WINDOW_BYTES);
  }

  // ---- what streams ask for -------------------------------------------------------------------------------------------

  /** @internal */
  writeHeaders(streamId: number, block: Uint8Array, endStream: boolean): void {
    if (!this.ended) writeHeaderBlock(this.output, this.peer, streamId, block, endStream);
  }

  /** @internal Sends as much as the windows allow; returns how much. */
  writeData(stream: Http2Stream, piece: Uint8Array, endStream: boolean): number {
    return this.ended ? piece.length : this.sendWindow.send(stream, piece, endStream);
  }

  /** @internal */
  writeReset(stream: Http2Stream, errorCode: number): void {
    if (!this.ended) this.streams.reset(stream.id, errorCode);
  }

  /** @internal Those that wait for window have some. */
  serveWaiting(): void {
    if (this.sendWindow.streamsWait)
      this.sendWindow.serveWaiting((stream) => this.streams.guarded(stream, () => stream.flushQueue()));
  }

  /** @internal Octets of the peer's that need its window no more. */
  giveCredit(bytes: number): void {
    this.receiveWindow.give(bytes);
  }

  /** @internal So many more octets of bodies wait for window, or fewer. */
  addQueued(bytes: number): void {
    const { maxQueuedBytes } = this.limits;
    const wasFull = this.queuedBodyBytes > maxQueuedBytes;
    this.queuedBodyBytes += bytes;
    if (wasFull && this.queuedBodyBytes <= maxQueuedBytes && !this.ended) this.onRoom();
  }

  /**
   * @internal So much more memory for a body that comes in pieces; false if there is no room for it. One that is as large as
   * its handler takes, if that is bounded, has room where no other is.
   */
  addBuffered(bytes: number, largestBytes = 0): boolean {
    const { maxBufferedBytes } = this.limits;
    const most = largestBytes < Infinity ? Math.max(maxBufferedBytes, largestBytes) : maxBufferedBytes;
    if (bytes > 0 && this.bufferedBodyBytes + bytes > most) return false;
    this.bufferedBodyBytes += bytes;
    return true;
  }

  /** @internal The stream is closed. */
  forget(stream: Http2Stream): void {
    this.streams.forget(stream);
    this.sendWindow.forget(stream);
    if (!this.ended) this.onRoom();
  }

  /** @internal Whether the stream has never been opened. */
  isIdle(streamId: number): boolean {
    return (streamId & 1) === 0 || streamId > this.lastStreamId;
  }

  /** @internal */
  onHandlerError(cause: unknown): void {
    this.events.onHandlerError?.(cause);
  }
}
