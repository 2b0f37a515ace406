import type { Duplex } from "node:stream";
import { Http2Connection, type ConnectionEvents, type ConnectionOptions } from "./connection.ts";
import { writeGoaway, writePing } from "./frame-writer.ts";
import type { HeaderBlock } from "./header-block.ts";
import { contentLength, requestHeaderProblem, trailerProblem } from "./header-rules.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import { connectionError } from "./http2-error.ts";
import { CLIENT_PREFACE, ErrorCode, LARGEST_STREAM_ID, Setting } from "./protocol.ts";
import { Http2Stream, type StreamHandler } from "./stream.ts";

export interface ServerConnectionEvents extends ConnectionEvents {
  /** A request's headers have come: returns who takes its body. `stream.headers` is the request's header block. */
  onRequest(stream: Http2Stream): StreamHandler;
}

const headersTooLarge = encodeHeaderBlock([[":status", "431"]]);
const shutdownPing = Buffer.from("shutdown", "latin1");
const placeholder: StreamHandler = { body: "pieces" };

/** The server's end of an HTTP/2 connection, over any Duplex: a socket, TLS, or one of a test. */
export class Http2ServerConnection extends Http2Connection {
  private readonly serverEvents: ServerConnectionEvents;
  private prefaceBytes = 0;
  private draining = false;
  /** The last GOAWAY of a drain is out: new streams are refused. */
  private refusing = false;
  /** The last stream that is served, once `refusing`. */
  private lastServedId = 0;

  constructor(socket: Duplex, events: ServerConnectionEvents, options: ConnectionOptions = {}) {
    super(socket, events, options);
    this.serverEvents = events;
    this.announce([
      [Setting.HEADER_TABLE_SIZE, this.limits.headerTableBytes],
      [Setting.MAX_CONCURRENT_STREAMS, this.limits.maxConcurrentStreams],
      [Setting.INITIAL_WINDOW_SIZE, this.limits.streamWindowBytes],
      [Setting.MAX_FRAME_SIZE, this.limits.maxFrameBytes],
      [Setting.MAX_HEADER_LIST_SIZE, this.limits.maxHeaderListBytes],
    ]);
  }

  /**
   * Ends the connection when its open streams have ended. The client is told at once to open no more, and what it opens
   * before it knows is still served (RFC 9113, section 6.8).
   */
  override drain(): void {
    if (this.draining || this.isClosed) return;
    this.draining = true;
    writeGoaway(this.output, LARGEST_STREAM_ID, ErrorCode.NO_ERROR, "");
    writePing(this.output, shutdownPing);
  }

  /** @internal */
  override onPingAck(payload: Buffer): void {
    // What the client sent before it knew has come by now.
    if (payload.equals(shutdownPing)) this.refuseStreams();
  }

  /** @internal */
  override get drainIsUnanswered(): boolean {
    return this.draining && !this.refusing;
  }

  /** @internal */
  override refuseStreams(): void {
    if (!this.drainIsUnanswered) return;
    this.lastServedId = this.lastStreamId;
    writeGoaway(this.output, this.lastServedId, ErrorCode.NO_ERROR, "");
    this.refusing = true;
    this.onRoom();
  }

  /** @internal */
  override onRoom(): void {
    if (this.refusing && this.streams.size === 0) this.destroy();
  }

  /** No GOAWAY may name a later stream than the one before it (section 6.8). */
  protected override lastPeerStreamId(): number {
    return this.refusing ? this.lastServedId : this.lastStreamId;
  }

  /** @internal The answer was not whole, so the client gave it up, also with NO_ERROR: that is how Node's clients cancel. */
  override onPeerReset(stream: Http2Stream, errorCode: number): void {
    if (this.streams.takeReset())
      this.streams.abort(stream, errorCode === ErrorCode.NO_ERROR ? ErrorCode.CANCEL : errorCode);
  }

  /** @internal The answer is complete, and what the client has not sent of its request is not needed (section 8.1). */
  override onLocalEnd(stream: Http2Stream): void {
    this.streams.earnReset();
    this.writeReset(stream, ErrorCode.NO_ERROR);
    stream.close();
  }

  /** @internal */
  override mayQueue(): boolean {
    return this.queuedBodyBytes <= this.limits.maxQueuedBytes;
  }

  protected override skipPreface(chunk: Buffer, end: number): number | undefined {
    if (this.prefaceBytes === CLIENT_PREFACE.length) return 0;
    const take = Math.min(CLIENT_PREFACE.length - this.prefaceBytes, end);
    if (CLIENT_PREFACE.compare(chunk, 0, take, this.prefaceBytes, this.prefaceBytes + take) !== 0) {
      throw connectionError(ErrorCode.PROTOCOL_ERROR, "the connection does not start with the client preface");
    }
    this.prefaceBytes += take;
    return this.prefaceBytes === CLIENT_PREFACE.length ? take : undefined;
  }

  /** @internal */
  override onGoaway(): void {
    // A client that opens no more streams closes the connection itself when it is done.
  }

  /** @internal */
  override onHeaderBlock(streamId: number, block: HeaderBlock | undefined, endStream: boolean): void {
    const open = this.streams.get(streamId);
    if (open !== undefined) return this.onTrailers(open, block, endStream);
    if ((streamId & 1) === 0)
      throw connectionError(ErrorCode.PROTOCOL_ERROR, `a client opened stream ${streamId}, which is even`);
    if (streamId <= this.lastStreamId) {
      if (this.streams.wasResetByUs(streamId)) return this.budget.takeLateHeaders();
      throw connectionError(ErrorCode.STREAM_CLOSED, `HEADERS on stream ${streamId}, which is closed`);
    }
    this.lastStreamId = streamId;
    if (this.refusing || this.streams.size >= this.limits.maxConcurrentStreams) return this.refuse(streamId);
    if (block === undefined) {
      this.writeHeaders(streamId, headersTooLarge, true);
      return endStream ? undefined : this.streams.reset(streamId, ErrorCode.NO_ERROR);
    }
    // A block that repeats is one object, and was looked at before.
    if (!block.checked) {
      block.declaredBytes = contentLength(block);
      if (requestHeaderProblem(block) !== undefined || Number.isNaN(block.declaredBytes))
        return this.streams.faultUnknown(streamId, ErrorCode.PROTOCOL_ERROR);
      block.checked = true;
    }
    if (endStream && block.declaredBytes !== undefined && block.declaredBytes > 0)
      return this.streams.faultUnknown(streamId, ErrorCode.PROTOCOL_ERROR);
    return this.open(streamId, block, endStream);
  }

  /** A client may not have known that there is no room; one that has seen our settings should. */
  private refuse(streamId: number): void {
    if (!this.control.settingsAcknowledged) this.budget.takeControl("streams beyond maxConcurrentStreams");
    else if (!this.refusing && !this.streams.takeReset()) return;
    this.streams.reset(streamId, ErrorCode.REFUSED_STREAM);
  }

  private open(streamId: number, block: HeaderBlock, endStream: boolean): void {
    const stream = new Http2Stream(
      this,
      streamId,
      placeholder,
      this.peer.initialWindowBytes,
      this.initialReceiveWindowBytes(),
    );
    stream.headers = block;
    stream.declaredBytes = block.declaredBytes;
    stream.remoteEnding = endStream;
    this.streams.add(stream);
    try {
      stream.handler = this.serverEvents.onRequest(stream);
      if (endStream && !stream.closed) stream.endRemote(undefined);
    } catch (cause) {
      this.streams.handlerFailed(stream, cause);
    }
  }

  private onTrailers(stream: Http2Stream, block: HeaderBlock | undefined, endStream: boolean): void {
    if (stream.remoteEnded) return this.streams.fault(stream, ErrorCode.STREAM_CLOSED);
    if (!endStream || block === undefined || trailerProblem(block) !== undefined)
      return this.streams.fault(stream, ErrorCode.PROTOCOL_ERROR);
    if (stream.declaredBytes !== undefined && stream.declaredBytes !== stream.receivedBytes)
      return this.streams.fault(stream, ErrorCode.PROTOCOL_ERROR);
    try {
      stream.endRemote(block);
    } catch (cause) {
      this.streams.handlerFailed(stream, cause);
    }
    return undefined;
  }
}
