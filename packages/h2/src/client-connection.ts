import type { Duplex } from "node:stream";
import { Http2Connection, type ConnectionEvents, type ConnectionOptions } from "./connection.ts";
import { writePing } from "./frame-writer.ts";
import type { HeaderBlock } from "./header-block.ts";
import { contentLength, responseHeaderProblem, trailerProblem } from "./header-rules.ts";
import { connectionError } from "./http2-error.ts";
import { CLIENT_PREFACE, ErrorCode, LARGEST_STREAM_ID, Setting } from "./protocol.ts";
import { Http2Stream, type StreamHandler } from "./stream.ts";

export interface ClientConnectionEvents extends ConnectionEvents {
  /** There is room for another stream, after `request` had returned undefined. */
  onRoom?(): void;
  /** The server opens no more streams on this connection; those that it has not seen are reset with REFUSED_STREAM. */
  onGoaway?(errorCode: number, debug: string): void;
}

/** What a server is supposed to allow until it has said how many streams it allows. */
const STREAMS_BEFORE_SETTINGS = 100;

/** The client's end of an HTTP/2 connection, over any Duplex. */
export class Http2ClientConnection extends Http2Connection {
  private readonly clientEvents: ClientConnectionEvents;
  private roomWanted = false;
  private draining = false;
  /** The server has said how many streams it allows. */
  private limitKnown = false;
  private readonly pings = new Map<string, (lost: boolean) => void>();
  private pingCount = 0;

  constructor(socket: Duplex, events: ClientConnectionEvents = {}, options: ConnectionOptions = {}) {
    super(socket, events, options);
    this.clientEvents = events;
    this.peer.maxConcurrentStreams = STREAMS_BEFORE_SETTINGS;
    this.output.bytes(CLIENT_PREFACE);
    this.announce([
      [Setting.HEADER_TABLE_SIZE, this.limits.headerTableBytes],
      [Setting.ENABLE_PUSH, 0],
      [Setting.INITIAL_WINDOW_SIZE, this.limits.streamWindowBytes],
      [Setting.MAX_FRAME_SIZE, this.limits.maxFrameBytes],
      [Setting.MAX_HEADER_LIST_SIZE, this.limits.maxHeaderListBytes],
    ]);
  }

  /** Whether `request` would open a stream now. */
  get hasRoom(): boolean {
    return (
      !this.isFinished &&
      this.streams.size < this.peer.maxConcurrentStreams &&
      this.queuedBodyBytes <= this.limits.maxQueuedBytes
    );
  }

  /**
   * There will never be room again: the connection is closed or drains, or the server takes no more streams, or the ids are
   * used up.
   */
  get isFinished(): boolean {
    return this.isClosed || this.draining || this.control.goawayReceived || this.lastStreamId >= LARGEST_STREAM_ID - 1;
  }

  /** Ends the connection when its open streams have ended; no more are opened. */
  override drain(): void {
    this.draining = true;
    if (!this.isClosed) this.onRoom();
  }

  /**
   * Opens a stream and sends a request: an encoded header block (`encodeHeaderBlock`) and, unless it is undefined, a whole
   * body. With `endStream: false` the body goes on with `stream.sendData`. Returns undefined when there is no room for a
   * stream now; `onRoom` says when there is, unless `isFinished`.
   */
  request(
    head: Uint8Array,
    body: Uint8Array | undefined,
    handler: StreamHandler,
    options: { readonly context?: unknown; readonly endStream?: boolean } = {},
  ): Http2Stream | undefined {
    if (!this.hasRoom) {
      this.roomWanted = true;
      return undefined;
    }
    const id = this.lastStreamId === 0 ? 1 : this.lastStreamId + 2;
    this.lastStreamId = id;
    const stream = new Http2Stream(this, id, handler, this.peer.initialWindowBytes, this.initialReceiveWindowBytes());
    stream.context = options.context;
    this.streams.add(stream);
    if (options.endStream === false) {
      stream.sendHeaders(head);
      if (body !== undefined) stream.sendData(body);
    } else {
      stream.respond(head, body);
    }
    return stream;
  }

  /** Asks the server for a sign of life; resolves with the round trip in milliseconds. */
  ping(): Promise<number> {
    if (this.isClosed) return Promise.reject(connectionError(ErrorCode.NO_ERROR, "the connection is closed"));
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(this.pingCount++ >>> 0, 4);
    const sentAtMs = this.nowMs();
    writePing(this.output, payload);
    return new Promise((resolve, reject) => {
      this.pings.set(payload.toString("latin1"), (lost) => {
        if (lost) reject(connectionError(ErrorCode.NO_ERROR, "the connection ended before its ping was answered"));
        else resolve(this.nowMs() - sentAtMs);
      });
    });
  }

  /** @internal */
  override onPingAck(payload: Buffer): void {
    const key = payload.toString("latin1");
    const settle = this.pings.get(key);
    this.pings.delete(key);
    settle?.(false);
  }

  protected override onEnded(): void {
    for (const settle of this.pings.values()) settle(true);
    this.pings.clear();
  }

  /** @internal */
  override onRoom(): void {
    if (this.roomWanted && this.hasRoom) {
      this.roomWanted = false;
      this.clientEvents.onRoom?.();
    }
    if (this.isFinished && this.streams.size === 0) this.destroy();
  }

  protected override lastPeerStreamId(): number {
    return 0;
  }

  /** @internal A server that has answered needs no more of the request (section 8.1 of RFC 9113): that is no failure. */
  override onPeerReset(stream: Http2Stream, errorCode: number): void {
    if (errorCode === ErrorCode.NO_ERROR && stream.remoteEnded)
      this.streams.guarded(stream, () => stream.discardRest());
    else this.streams.abort(stream, errorCode);
  }

  /** @internal A response may come before the request has ended: the request goes on. */
  override onLocalEnd(): void {}

  /** @internal `hasRoom` keeps further streams from queueing. */
  override mayQueue(): boolean {
    return true;
  }

  /** @internal */
  override checkSetting(id: number, value: number): void {
    if (id === Setting.ENABLE_PUSH && value !== 0)
      throw connectionError(ErrorCode.PROTOCOL_ERROR, "a server set SETTINGS_ENABLE_PUSH");
    if (id === Setting.MAX_CONCURRENT_STREAMS) this.limitKnown = true;
  }

  /** @internal */
  override onFirstSettings(): void {
    if (!this.limitKnown) this.peer.maxConcurrentStreams = Infinity;
  }

  /** @internal */
  override onGoaway(lastStreamId: number, errorCode: number, debug: string): void {
    this.clientEvents.onGoaway?.(errorCode, debug);
    for (const stream of this.streams.all()) {
      if (stream.id > lastStreamId) this.streams.abort(stream, ErrorCode.REFUSED_STREAM);
    }
    this.onRoom();
  }

  /** @internal */
  override onHeaderBlock(streamId: number, block: HeaderBlock | undefined, endStream: boolean): void {
    const stream = this.streams.of(streamId, "HEADERS");
    if (stream === undefined) {
      if (this.streams.wasResetByUs(streamId)) this.budget.takeLateHeaders();
      else this.streams.closedStreamError(streamId, "HEADERS");
      return;
    }
    const problem = this.apply(stream, block, endStream);
    if (problem !== undefined) this.streams.fault(stream, problem);
  }

  /** Returns the code of what is wrong with the block, or hands it on. */
  private apply(stream: Http2Stream, block: HeaderBlock | undefined, endStream: boolean): number | undefined {
    if (stream.remoteEnded) return ErrorCode.STREAM_CLOSED;
    if (block === undefined) return ErrorCode.ENHANCE_YOUR_CALM;
    if (stream.headers !== undefined) {
      const lengthIsWrong = stream.declaredBytes !== undefined && stream.declaredBytes !== stream.receivedBytes;
      if (!endStream || lengthIsWrong || trailerProblem(block) !== undefined) return ErrorCode.PROTOCOL_ERROR;
    } else {
      if (!block.checked) {
        block.declaredBytes = contentLength(block);
        if (responseHeaderProblem(block) !== undefined || Number.isNaN(block.declaredBytes))
          return ErrorCode.PROTOCOL_ERROR;
        block.checked = true;
      }
      if ((block.flat[1] as string).startsWith("1")) {
        this.budget.takeControl("informational responses");
        return endStream ? ErrorCode.PROTOCOL_ERROR : undefined;
      }
    }
    try {
      this.handOn(stream, block, endStream);
    } catch (cause) {
      this.streams.handlerFailed(stream, cause);
    }
    return undefined;
  }

  private handOn(stream: Http2Stream, block: HeaderBlock, endStream: boolean): void {
    if (stream.headers !== undefined) return stream.endRemote(block);
    stream.headers = block;
    stream.declaredBytes = block.declaredBytes;
    stream.handler.onHeaders?.(stream, block);
    if (endStream && !stream.closed) stream.endRemote(undefined);
    return undefined;
  }
}
