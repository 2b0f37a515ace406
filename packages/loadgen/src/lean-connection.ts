import { connect as connectSocket, type Socket } from "node:net";
import { Flow, SendWindow } from "./flow-control.ts";
import {
  CONNECTION_PREFACE,
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  FrameFlag,
  FrameType,
  Http2ErrorCode,
  http2ErrorName,
  MAX_WINDOW_BYTES,
  SettingId,
} from "./frame.ts";
import { FrameReader, type FrameHandler } from "./frame-reader.ts";
import { FrameWriter } from "./frame-writer.ts";
import { GrpcStatus, statusOfReset } from "./grpc-status.ts";
import { HpackDecoder } from "./hpack-decoder.ts";
import { encodeHeaderBlock } from "./hpack-encoder.ts";
import { HeaderBlock } from "./header-block.ts";
import { Http2Error } from "./http2-error.ts";
import { LoadError, messageOf } from "./load-error.ts";
import { detailOfResponse, readResponseField, type ResponseFields, statusOfResponse } from "./response-status.ts";
import {
  authorityOf,
  CONNECT_TIMEOUT_MS,
  requestFields,
  type Connect,
  type RpcConnection,
  type RpcEvents,
  type RpcTarget,
} from "./rpc-connection.ts";

/** What we let the peer send before it must wait: a stream's responses, and all of a connection's. */
const STREAM_WINDOW_BYTES = 1_048_576;
const CONNECTION_WINDOW_BYTES = 16_777_216;

/** Bodies are appended only up to here between two writes, so that a stalled peer cannot make memory grow. */
const MAX_UNWRITTEN_BYTES = 1_048_576;

const READ_BYTES = 65_536;

/** Ids are odd and below 2^31; a connection that has used them up must be replaced. */
const LAST_STREAM_ID = 0x7fff_ffff;

/** On POSIX a read fills the buffer and is handed over at once, so connections can share one, which stays in the CPU's cache. */
const sharedReadBuffer: Buffer | undefined =
  process.platform === "win32" ? undefined : Buffer.allocUnsafeSlow(READ_BYTES);

interface Call extends ResponseFields {
  token: number;
  streamId: number;
  frame: Uint8Array;
  /** Bytes of `frame` that have been appended to the output. */
  sentBytes: number;
  readonly sendWindow: SendWindow;
  readonly receive: Flow;
  bodyBytes: number;
  bodies: Buffer[] | undefined;
}

/**
 * A lean HTTP/2 client for unary gRPC calls: frames straight from a socket, one constant header block for all calls, one
 * write for each wake-up, and call records that are used again, so that a call costs a few microseconds of CPU.
 *
 * Holds to RFC 9113 in what a client of unary calls needs: settings, flow control both ways, CONTINUATION, PING, GOAWAY,
 * RST_STREAM, padding, the peer's limit on concurrent streams (calls above it wait here). It sends no priority, no
 * padding, and refuses server push.
 */
export const connectLean: Connect = (target, events) =>
  new Promise((resolve, reject) => {
    const connection = new LeanConnection(target, events, resolve, (reason) => {
      const where = authorityOf(target.host, target.port);
      reject(new LoadError("connect_failed", `cannot connect to ${where}: ${reason}`));
    });
    connection.open();
  });

class LeanConnection implements RpcConnection, FrameHandler {
  readonly #target: RpcTarget;
  readonly #events: RpcEvents;
  readonly #onReady: (connection: RpcConnection) => void;
  readonly #onFailed: (reason: string) => void;
  #socket: Socket | undefined;
  #connectTimer: NodeJS.Timeout | undefined;
  /**
   * - `connecting`: no SETTINGS of the peer yet, no events either
   * - `ready`: takes calls
   * - `closing`: takes none; waits for those outstanding
   * - `closed`: the socket is gone or going
   */
  #state: "connecting" | "ready" | "closing" | "closed" = "connecting";

  readonly #reader = new FrameReader(this);
  readonly #writer = new FrameWriter();
  readonly #decoder = new HpackDecoder();
  readonly #headerBlock: Buffer;
  readonly #block = new HeaderBlock();
  /** The call whose header block is being decoded. */
  #decoding: ResponseFields = { httpStatus: 0, grpcStatus: -1, grpcMessage: "" };
  readonly #onField = (name: string, value: string): void => readResponseField(this.#decoding, name, value);

  readonly #calls = new Map<number, Call>();
  /** Calls with body to send, in order; the first is the one being sent. */
  readonly #sending: Call[] = [];
  /** Calls above the peer's limit on concurrent streams: they have no stream yet. */
  readonly #waiting: Call[] = [];
  readonly #unused: Call[] = [];
  #nextStreamId = 1;

  #peerMaxStreams = Number.POSITIVE_INFINITY;
  #peerMaxFrameBytes = DEFAULT_MAX_FRAME_BYTES;
  #peerStreamWindowBytes = DEFAULT_WINDOW_BYTES;
  readonly #sendWindow = new SendWindow(DEFAULT_WINDOW_BYTES);
  readonly #receive = new Flow(CONNECTION_WINDOW_BYTES);

  /** Why no calls are taken any more. */
  #closeReason = "";
  #reading = false;
  #flushScheduled = false;
  /** The socket holds more than it wants to: no bodies until it drains. */
  #blocked = false;
  readonly #flushLater = (): void => {
    this.#flushScheduled = false;
    this.#flush();
  };

  constructor(
    target: RpcTarget,
    events: RpcEvents,
    onReady: (connection: RpcConnection) => void,
    onFailed: (reason: string) => void,
  ) {
    this.#target = target;
    this.#events = events;
    this.#onReady = onReady;
    this.#onFailed = onFailed;
    this.#headerBlock = encodeHeaderBlock(requestFields(target));
  }

  get outstanding(): number {
    return this.#calls.size + this.#waiting.length;
  }

  open(): void {
    const socket = connectSocket({
      host: this.#target.host,
      port: this.#target.port,
      noDelay: true,
      onread: {
        buffer: sharedReadBuffer ?? Buffer.allocUnsafeSlow(READ_BYTES),
        callback: (bytesRead: number, buffer: Uint8Array): boolean => this.#read(buffer as Buffer, bytesRead),
      },
    });
    this.#socket = socket;
    this.#connectTimer = setTimeout(
      () => this.#closed(`no HTTP/2 SETTINGS within ${CONNECT_TIMEOUT_MS} ms`),
      CONNECT_TIMEOUT_MS,
    );
    socket.on("connect", () => {
      this.#writer.bytes(Buffer.from(CONNECTION_PREFACE, "latin1"));
      this.#writer.settings([
        [SettingId.enablePush, 0],
        [SettingId.initialWindowSize, STREAM_WINDOW_BYTES],
      ]);
      this.#writer.windowUpdate(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES);
      this.#flush();
    });
    socket.on("drain", () => {
      this.#blocked = false;
      this.#flush();
    });
    socket.on("error", (error) => this.#closed(messageOf(error)));
    socket.on("end", () => this.#closed("the server closed the connection"));
    socket.on("close", () => this.#closed("the connection is closed"));
  }

  call(token: number, frame: Uint8Array): void {
    if (this.#state !== "ready") throw new LoadError("protocol_error", `a call on a connection that is ${this.#state}`);
    const call = this.#unused.pop() ?? newCall();
    call.token = token;
    call.frame = frame;
    call.sentBytes = 0;
    call.httpStatus = 0;
    call.grpcStatus = -1;
    call.grpcMessage = "";
    call.bodyBytes = 0;
    call.bodies = undefined;
    if (this.#calls.size >= this.#peerMaxStreams) this.#waiting.push(call);
    else this.#start(call);
    this.#wantFlush();
  }

  close(): void {
    if (this.#state === "closed") return;
    for (const streamId of this.#calls.keys()) this.#writer.rstStream(streamId, Http2ErrorCode.cancel);
    this.#writer.goAway(0, Http2ErrorCode.noError);
    this.#end("closed by the client", GrpcStatus.cancelled);
  }

  #start(call: Call): void {
    const streamId = this.#nextStreamId;
    this.#nextStreamId += 2;
    call.streamId = streamId;
    call.sendWindow.reset(this.#peerStreamWindowBytes);
    call.receive.reset(STREAM_WINDOW_BYTES);
    this.#calls.set(streamId, call);
    this.#writer.header(this.#headerBlock.length, FrameType.headers, FrameFlag.endHeaders, streamId);
    this.#writer.bytes(this.#headerBlock);
    this.#sending.push(call);
    if (this.#sending.length === 1) this.#sendBodies();
    if (this.#nextStreamId > LAST_STREAM_ID) this.#stopTaking("all stream ids of the connection are used");
  }

  /** Appends as much of the bodies as windows and memory allow; a stream whose own window is shut lets others pass. */
  #sendBodies(): void {
    const sending = this.#sending;
    let kept = 0;
    let at = 0;
    for (; at < sending.length && !this.#blocked && this.#sendWindow.bytes > 0; at++) {
      const call = sending[at] as Call;
      this.#sendBody(call);
      if (call.sentBytes < call.frame.length) sending[kept++] = call;
      if (this.#writer.length >= MAX_UNWRITTEN_BYTES) this.#write();
    }
    if (kept === at) return;
    for (; at < sending.length; at++) sending[kept++] = sending[at] as Call;
    sending.length = kept;
  }

  #sendBody(call: Call): void {
    const { frame } = call;
    while (call.sentBytes < frame.length) {
      const room = Math.min(this.#sendWindow.bytes, call.sendWindow.bytes, this.#peerMaxFrameBytes);
      if (room <= 0) return;
      const bytes = Math.min(room, frame.length - call.sentBytes);
      const last = call.sentBytes + bytes === frame.length;
      this.#writer.header(bytes, FrameType.data, last ? FrameFlag.endStream : 0, call.streamId);
      this.#writer.bytes(frame, call.sentBytes, call.sentBytes + bytes);
      call.sentBytes += bytes;
      call.sendWindow.take(bytes);
      this.#sendWindow.take(bytes);
    }
  }

  /** One write for everything that a wake-up produces: at the end of a read, or else at the end of this turn. */
  #wantFlush(): void {
    if (this.#reading || this.#flushScheduled) return;
    this.#flushScheduled = true;
    process.nextTick(this.#flushLater);
  }

  #flush(): void {
    if (this.#state === "closed") return;
    if (this.#sending.length > 0) this.#sendBodies();
    this.#write();
  }

  #write(): void {
    const socket = this.#socket;
    if (this.#writer.length === 0 || socket === undefined || socket.destroyed) return;
    const roomy = socket.write(this.#writer.take());
    // Node tries the write at once; where the kernel took all of it, the same memory serves the next write.
    if (socket.writableLength === 0) {
      this.#writer.reset();
    } else {
      this.#writer.replace();
      this.#blocked = !roomy;
    }
  }

  #read(buffer: Buffer, bytes: number): boolean {
    if (this.#state === "closed") return true;
    this.#reading = true;
    try {
      this.#reader.push(buffer, bytes);
    } catch (error) {
      this.#fail(error);
    }
    this.#reading = false;
    this.#flush();
    return true;
  }

  #fail(error: unknown): void {
    const code = error instanceof Http2Error ? error.http2Code : Http2ErrorCode.internalError;
    this.#writer.goAway(0, code);
    this.#end(messageOf(error), GrpcStatus.unavailable);
    // A bug of ours or of the caller's must not pass for the peer's.
    if (!(error instanceof Http2Error)) throw error;
  }

  onFrame(type: number, flags: number, streamId: number, buffer: Buffer, start: number, end: number): void {
    if (this.#state === "closed") return;
    if (this.#state === "connecting" && type !== FrameType.settings) {
      protocolError(`frame type ${type} before SETTINGS: is this an HTTP/2 server?`);
    }
    if (this.#block.open && (type !== FrameType.continuation || streamId !== this.#block.streamId)) {
      protocolError("a header block is interrupted by another frame");
    }
    switch (type) {
      case FrameType.data:
        return this.#onData(flags, streamId, buffer, start, end);
      case FrameType.headers:
        if (streamId === 0 || streamId % 2 === 0 || streamId >= this.#nextStreamId) {
          protocolError(`HEADERS on stream ${streamId}`);
        }
        return this.#onHeaderBlock(this.#block.onHeaders(flags, streamId, buffer, start, end));
      case FrameType.continuation:
        return this.#onHeaderBlock(this.#block.onContinuation(flags, buffer, start, end));
      case FrameType.rstStream:
        return this.#onReset(streamId, buffer, start, end);
      case FrameType.settings:
        return this.#onSettings(flags, streamId, buffer, start, end);
      case FrameType.pushPromise:
        return protocolError("PUSH_PROMISE although push is off");
      case FrameType.ping:
        if (end - start !== 8) sizeError("PING", end - start);
        if (streamId !== 0) protocolError(`PING on stream ${streamId}`);
        if ((flags & FrameFlag.ack) === 0) this.#writer.pingAck(buffer, start);
        return undefined;
      case FrameType.goAway:
        return this.#onGoAway(streamId, buffer, start, end);
      case FrameType.windowUpdate:
        return this.#onWindowUpdate(streamId, buffer, start, end);
      default:
        // PRIORITY, and types that are not known, are ignored.
        return undefined;
    }
  }

  #onData(flags: number, streamId: number, buffer: Buffer, start: number, end: number): void {
    if (streamId === 0 || streamId >= this.#nextStreamId) protocolError(`DATA on stream ${streamId}`);
    // The whole payload counts for flow control, padding and streams that are over too.
    const flowBytes = end - start;
    if (!this.#receive.arrive(flowBytes)) flowError("of the connection");
    const connectionCredit = this.#receive.credit();
    if (connectionCredit > 0) this.#writer.windowUpdate(0, connectionCredit);
    const call = this.#calls.get(streamId);
    if (call === undefined) return;
    if (!call.receive.arrive(flowBytes)) flowError(`of stream ${streamId}`);
    let [from, to] = [start, end];
    if ((flags & FrameFlag.padded) !== 0) {
      const padding = buffer[start] as number;
      if (start === end || padding >= end - start) protocolError("DATA with more padding than payload");
      from = start + 1;
      to = end - padding;
    }
    call.bodyBytes += to - from;
    if (this.#target.collectBodies === true) (call.bodies ??= []).push(Buffer.from(buffer.subarray(from, to)));
    if ((flags & FrameFlag.endStream) !== 0) {
      this.#answered(call);
      return;
    }
    const credit = call.receive.credit();
    if (credit > 0) this.#writer.windowUpdate(streamId, credit);
  }

  #onHeaderBlock(block: HeaderBlock | undefined): void {
    if (block === undefined) return;
    const call = this.#calls.get(block.streamId);
    // Blocks of calls that are over are decoded too, or the dynamic table falls out of step.
    const fields: ResponseFields = call ?? { httpStatus: 0, grpcStatus: -1, grpcMessage: "" };
    const hadFinalStatus = fields.httpStatus >= 200;
    this.#decoding = fields;
    this.#decoder.decode(block.buffer, block.start, block.end, this.#onField);
    if (call === undefined) return;
    if (block.endStream) this.#answered(call);
    else if (hadFinalStatus) protocolError(`trailers of stream ${block.streamId} without END_STREAM`);
  }

  #answered(call: Call): void {
    const status = statusOfResponse(call, call.bodyBytes);
    if (call.sentBytes < call.frame.length) {
      // Answered before the request was sent whole: the rest is not wanted (RFC 9113 §8.1).
      this.#writer.rstStream(call.streamId, Http2ErrorCode.cancel);
      this.#forgetBody(call);
    }
    this.#finish(call, status, status === GrpcStatus.ok ? "" : detailOfResponse(call, status));
  }

  #onReset(streamId: number, buffer: Buffer, start: number, end: number): void {
    if (end - start !== 4) sizeError("RST_STREAM", end - start);
    if (streamId === 0 || streamId >= this.#nextStreamId) protocolError(`RST_STREAM on stream ${streamId}`);
    const call = this.#calls.get(streamId);
    if (call === undefined) return;
    const code = buffer.readUInt32BE(start);
    this.#forgetBody(call);
    this.#finish(call, statusOfReset(code), `the server reset the stream: ${http2ErrorName(code)}`);
  }

  #forgetBody(call: Call): void {
    const at = this.#sending.indexOf(call);
    if (at >= 0) this.#sending.splice(at, 1);
  }

  /** Takes the call off the connection, lets a waiting one start, and only then tells the caller. */
  #finish(call: Call, status: number, detail: string): void {
    this.#calls.delete(call.streamId);
    const { token, bodyBytes, bodies } = call;
    call.frame = NO_FRAME;
    call.bodies = undefined;
    this.#unused.push(call);
    if (this.#waiting.length > 0 && this.#calls.size < this.#peerMaxStreams) this.#start(this.#waiting.shift() as Call);
    if (bodies !== undefined) this.#events.onBody?.(token, Buffer.concat(bodies));
    this.#events.onAnswer(token, status, detail, bodyBytes);
    if (this.#state === "closing" && this.outstanding === 0) this.#end(this.#closeReason, GrpcStatus.unavailable);
  }

  #onSettings(flags: number, streamId: number, buffer: Buffer, start: number, end: number): void {
    if (streamId !== 0) protocolError(`SETTINGS on stream ${streamId}`);
    if ((flags & FrameFlag.ack) !== 0) {
      if (end !== start) sizeError("SETTINGS acknowledgement", end - start);
      return;
    }
    if ((end - start) % 6 !== 0) sizeError("SETTINGS", end - start);
    for (let at = start; at < end; at += 6) this.#applySetting(buffer.readUInt16BE(at), buffer.readUInt32BE(at + 2));
    this.#writer.settingsAck();
    if (this.#state === "connecting") {
      this.#state = "ready";
      clearTimeout(this.#connectTimer);
      this.#onReady(this);
    }
    while (this.#waiting.length > 0 && this.#calls.size < this.#peerMaxStreams) {
      this.#start(this.#waiting.shift() as Call);
    }
  }

  #applySetting(id: number, value: number): void {
    if (id === SettingId.maxConcurrentStreams) {
      this.#peerMaxStreams = value;
    } else if (id === SettingId.initialWindowSize) {
      if (value > MAX_WINDOW_BYTES) flowError(`in SETTINGS_INITIAL_WINDOW_SIZE: ${value}`);
      const change = value - this.#peerStreamWindowBytes;
      this.#peerStreamWindowBytes = value;
      for (const call of this.#calls.values()) {
        if (!call.sendWindow.give(change)) flowError(`of stream ${call.streamId}`);
      }
    } else if (id === SettingId.maxFrameSize) {
      if (value < DEFAULT_MAX_FRAME_BYTES || value > 0xff_ffff) protocolError(`SETTINGS_MAX_FRAME_SIZE is ${value}`);
      this.#peerMaxFrameBytes = value;
    }
    // The header table size does not matter: our blocks use no dynamic table.
  }

  #onWindowUpdate(streamId: number, buffer: Buffer, start: number, end: number): void {
    if (end - start !== 4) sizeError("WINDOW_UPDATE", end - start);
    const increment = buffer.readUInt32BE(start) & MAX_WINDOW_BYTES;
    if (increment === 0) protocolError(`WINDOW_UPDATE by 0 on stream ${streamId}`);
    const window = streamId === 0 ? this.#sendWindow : this.#calls.get(streamId)?.sendWindow;
    if (window !== undefined && !window.give(increment)) flowError(`of stream ${streamId}`);
  }

  #onGoAway(streamId: number, buffer: Buffer, start: number, end: number): void {
    if (end - start < 8) sizeError("GOAWAY", end - start);
    if (streamId !== 0) protocolError(`GOAWAY on stream ${streamId}`);
    const lastStreamId = buffer.readUInt32BE(start) & LAST_STREAM_ID;
    const code = buffer.readUInt32BE(start + 4);
    const debug = buffer.toString("utf8", start + 8, end);
    this.#stopTaking(`the server sent GOAWAY: ${http2ErrorName(code)}${debug === "" ? "" : ` (${debug})`}`);
    for (const call of this.#calls.values()) {
      if (call.streamId <= lastStreamId) continue;
      this.#forgetBody(call);
      this.#finish(call, GrpcStatus.unavailable, this.#closeReason);
    }
    if (this.#state === "closing" && this.outstanding === 0) this.#end(this.#closeReason, GrpcStatus.unavailable);
  }

  /** Takes no more calls; those that have no stream yet will not get one. */
  #stopTaking(reason: string): void {
    if (this.#state !== "ready") return;
    this.#state = "closing";
    this.#closeReason = reason;
    this.#events.onClosing();
    for (const { token } of this.#waiting.splice(0)) this.#events.onAnswer(token, GrpcStatus.unavailable, reason, 0);
  }

  #closed(reason: string): void {
    if (this.#state !== "closed") this.#end(reason, GrpcStatus.unavailable);
  }

  /** Ends the connection from any state: writes what waits, answers what is outstanding. */
  #end(reason: string, status: number): void {
    const before = this.#state;
    this.#write();
    this.#state = "closed";
    this.#socket?.destroySoon();
    // A peer that does not read what is left must not keep the program alive.
    this.#socket?.unref();
    if (before === "connecting") {
      clearTimeout(this.#connectTimer);
      this.#onFailed(reason);
      return;
    }
    if (before === "ready") this.#events.onClosing();
    const calls = [...this.#calls.values(), ...this.#waiting];
    this.#calls.clear();
    this.#waiting.length = 0;
    this.#sending.length = 0;
    for (const { token } of calls) this.#events.onAnswer(token, status, reason, 0);
    this.#events.onClosed(reason);
  }
}

const NO_FRAME = new Uint8Array(0);

function newCall(): Call {
  return {
    token: 0,
    streamId: 0,
    frame: NO_FRAME,
    sentBytes: 0,
    sendWindow: new SendWindow(0),
    receive: new Flow(STREAM_WINDOW_BYTES),
    bodyBytes: 0,
    bodies: undefined,
    httpStatus: 0,
    grpcStatus: -1,
    grpcMessage: "",
  };
}

function protocolError(message: string): never {
  throw new Http2Error(Http2ErrorCode.protocolError, message);
}

function sizeError(frame: string, bytes: number): never {
  throw new Http2Error(Http2ErrorCode.frameSizeError, `${frame} with a payload of ${bytes} bytes`);
}

function flowError(which: string): never {
  throw new Http2Error(Http2ErrorCode.flowControlError, `flow-control window ${which}`);
}
