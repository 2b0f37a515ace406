import { connect as connectSocket, type Socket } from "node:net";
import {
  encodeHeaderBlock,
  ErrorCode,
  errorName,
  type HeaderBlock,
  Http2ClientConnection,
  type Http2Error,
  type Http2Stream,
  type StreamHandler,
} from "@dlrm/h2";
import { GrpcStatus, statusOfReset } from "./grpc-status.ts";
import { LoadError, messageOf } from "./load-error.ts";
import {
  detailOfResponse,
  MESSAGE_PREFIX_BYTES,
  readResponseField,
  type ResponseFields,
  statusOfResponse,
} from "./response-status.ts";
import {
  authorityOf,
  CONNECT_TIMEOUT_MS,
  requestFields,
  type Connect,
  type RpcConnection,
  type RpcEvents,
  type RpcTarget,
} from "./rpc-connection.ts";

/** Calls wait here, by reference, while so much waits for the peer's reading or its windows: memory must not grow. */
const MAX_UNSENT_BYTES = 1_048_576;

/** A connection that has ended and whose peer reads nothing is cut off after this. */
const LINGER_MS = 1000;

/** A load generator trusts the server that it was told to load: refusing many calls is what a busy one does. */
const UNLIMITED = 0x7fff_ffff;

const READ_BYTES = 65_536;

/** On POSIX a read fills the buffer and is handed over at once, so connections can share one, which stays in the CPU's cache. */
const sharedReadBuffer: Buffer | undefined =
  process.platform === "win32" ? undefined : Buffer.allocUnsafeSlow(READ_BYTES);

interface Call {
  readonly token: number;
  bodyBytes: number;
  bodies: Buffer[] | undefined;
}

/** Calls over @dlrm/h2. One header block serves all calls of a target, and one write all that a wake-up produces. */
export const connectH2: Connect = (target, events) =>
  new Promise((resolve, reject) => {
    H2Connection.open(target, events, resolve, (reason) => {
      const where = authorityOf(target.host, target.port);
      reject(new LoadError("connect_failed", `cannot connect to ${where}: ${reason}`));
    });
  });

class H2Connection implements RpcConnection, StreamHandler {
  readonly body = "pieces";
  readonly #events: RpcEvents;
  readonly #onFailed: (reason: string) => void;
  readonly #collectBodies: boolean;
  readonly #head: Buffer;
  readonly #socket: Socket;
  readonly #http2: Http2ClientConnection;
  readonly #connectTimer: NodeJS.Timeout;
  /**
   * - `connecting`: the peer has not shown yet that it speaks HTTP/2; no events either
   * - `ready`: takes calls
   * - `closing`: takes none; waits for those outstanding, or for the socket to close
   * - `closed`: everything has been answered
   */
  #state: "connecting" | "ready" | "closing" | "closed" = "connecting";
  /** Why no calls are taken any more, where the peer has said so. */
  #reason = "";
  #outstanding = 0;
  /** Calls that have no stream yet, in order; `onRoom` or the socket's "drain" lets them go on. */
  readonly #waiting: { readonly token: number; readonly frame: Uint8Array }[] = [];
  /** Calls whose connection has ended: they are answered once it is known why. */
  readonly #lost: Call[] = [];

  /** Connects; calls `onReady` once the peer has shown that it speaks HTTP/2, or `onFailed`. */
  static open(
    target: RpcTarget,
    events: RpcEvents,
    onReady: (connection: RpcConnection) => void,
    onFailed: (reason: string) => void,
  ): H2Connection {
    return new H2Connection(target, events, onReady, onFailed);
  }

  private constructor(
    target: RpcTarget,
    events: RpcEvents,
    onReady: (connection: RpcConnection) => void,
    onFailed: (reason: string) => void,
  ) {
    this.#events = events;
    this.#onFailed = onFailed;
    this.#collectBodies = target.collectBodies === true;
    this.#head = encodeHeaderBlock(requestFields(target));
    this.#socket = openSocket(target.host, target.port);
    this.#http2 = new Http2ClientConnection(
      this.#socket,
      {
        onRoom: () => this.#startWaiting(),
        onGoaway: (errorCode, debug) => this.#onGoaway(errorCode, debug),
        onClose: (error) => this.#onClose(error),
        // A bug of ours or of the caller's must not pass for the peer's.
        onHandlerError: (cause) =>
          queueMicrotask(() => {
            throw cause;
          }),
      },
      { limits: { maxQueuedBytes: MAX_UNSENT_BYTES, controlFrameBurst: UNLIMITED, resetBurst: UNLIMITED } },
    );
    this.#socket.on("drain", () => this.#startWaiting());
    this.#socket.on("finish", () => this.#socket.destroy());
    this.#connectTimer = setTimeout(
      () => this.#socket.destroy(new Error(`no HTTP/2 SETTINGS within ${CONNECT_TIMEOUT_MS} ms`)),
      CONNECT_TIMEOUT_MS,
    );
    // The answer comes after the peer's SETTINGS, so that its limits are known. Where none comes, `onClose` says why.
    this.#http2.ping().then(
      () => {
        clearTimeout(this.#connectTimer);
        this.#state = "ready";
        onReady(this);
      },
      () => {},
    );
  }

  get outstanding(): number {
    return this.#outstanding;
  }

  call(token: number, frame: Uint8Array): void {
    if (this.#state !== "ready") throw new LoadError("protocol_error", `a call on a connection that is ${this.#state}`);
    this.#outstanding++;
    if (this.#waiting.length > 0 || !this.#start(token, frame)) this.#waiting.push({ token, frame });
  }

  close(): void {
    if (this.#state === "closed") return;
    this.#stopTaking();
    this.#state = "closed";
    this.#http2.destroy();
    this.#socket.destroySoon();
    // A peer that does not read what is left must not keep the program alive.
    this.#socket.unref();
    this.#end(GrpcStatus.cancelled, "closed by the client");
  }

  /** False where the call has to wait. */
  #start(token: number, frame: Uint8Array): boolean {
    if (this.#socket.writableLength > MAX_UNSENT_BYTES) return false;
    const call: Call = { token, bodyBytes: 0, bodies: undefined };
    if (this.#http2.request(this.#head, frame, this, { context: call }) === undefined) return false;
    if (this.#http2.isFinished) this.#refuseMore("all stream ids of the connection are used");
    return true;
  }

  #startWaiting(): void {
    const waiting = this.#waiting;
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      if (!this.#start(first.token, first.frame)) return;
      waiting.shift();
    }
  }

  onData(stream: Http2Stream, piece: Buffer): void {
    const call = stream.context as Call;
    call.bodyBytes += piece.length;
    if (this.#collectBodies) (call.bodies ??= []).push(piece);
  }

  onEnd(stream: Http2Stream, trailers: HeaderBlock | undefined): void {
    const call = stream.context as Call;
    stream.context = undefined;
    // Answered before the request was sent whole: the rest is not wanted (RFC 9113 §8.1).
    if (!stream.localEnded) stream.reset(ErrorCode.CANCEL);
    let fields = trailers === undefined ? undefined : fieldsOf(trailers);
    if (fields?.grpcStatus === GrpcStatus.ok && call.bodyBytes >= MESSAGE_PREFIX_BYTES) {
      this.#answer(call, GrpcStatus.ok, "");
      return;
    }
    if (fields === undefined || fields.grpcStatus < 0) fields = fieldsOf(stream.headers as HeaderBlock);
    const status = statusOfResponse(fields, call.bodyBytes);
    this.#answer(call, status, detailOfResponse(fields, status));
  }

  onReset(stream: Http2Stream, errorCode: number): void {
    const call = stream.context as Call | undefined;
    if (call === undefined) return;
    stream.context = undefined;
    if (this.#http2.isClosed) {
      this.#lost.push(call);
      this.#stopTaking();
      this.#socket.setTimeout(LINGER_MS, () => this.#socket.destroy());
    } else if (errorCode === ErrorCode.REFUSED_STREAM && this.#reason !== "") {
      this.#answer(call, GrpcStatus.unavailable, this.#reason);
    } else {
      this.#answer(call, statusOfReset(errorCode), `the stream was reset: ${errorName(errorCode)}`);
    }
  }

  #answer(call: Call, status: number, detail: string): void {
    this.#outstanding--;
    if (call.bodies !== undefined) this.#events.onBody?.(call.token, Buffer.concat(call.bodies));
    this.#events.onAnswer(call.token, status, detail, call.bodyBytes);
  }

  #onGoaway(errorCode: number, debug: string): void {
    this.#refuseMore(`the server sent GOAWAY: ${errorName(errorCode)}${debug === "" ? "" : ` (${debug})`}`);
  }

  /** Takes no more calls; those that have no stream yet will not get one. */
  #refuseMore(reason: string): void {
    this.#reason = reason;
    this.#stopTaking();
    this.#answerAll(this.#waiting.splice(0), GrpcStatus.unavailable, reason);
  }

  #stopTaking(): void {
    if (this.#state !== "ready") return;
    this.#state = "closing";
    this.#events.onClosing();
  }

  #onClose(error: Http2Error | undefined): void {
    if (this.#state === "closed") return;
    const reason = error === undefined ? this.#reason || "the server closed the connection" : reasonOf(error);
    if (this.#state === "connecting") {
      this.#state = "closed";
      clearTimeout(this.#connectTimer);
      this.#onFailed(reason);
    } else {
      this.#stopTaking();
      this.#state = "closed";
      this.#end(GrpcStatus.unavailable, reason);
    }
    if (error?.errorCode === ErrorCode.INTERNAL_ERROR) throw error;
  }

  #end(status: number, reason: string): void {
    this.#answerAll(this.#lost.splice(0), status, reason);
    this.#answerAll(this.#waiting.splice(0), status, reason);
    this.#events.onClosed(reason);
  }

  #answerAll(calls: readonly { readonly token: number }[], status: number, reason: string): void {
    for (const { token } of calls) {
      this.#outstanding--;
      this.#events.onAnswer(token, status, reason, 0);
    }
  }
}

/**
 * A socket whose reads cost little: into one buffer, and past the queue of Node's streams. What it emits as "data" is a copy
 * of its own, out of Node's pool for small buffers: answers are small.
 */
function openSocket(host: string, port: number): Socket {
  const socket = connectSocket({
    host,
    port,
    noDelay: true,
    onread: {
      buffer: sharedReadBuffer ?? Buffer.allocUnsafeSlow(READ_BYTES),
      callback: (bytesRead: number, buffer: Uint8Array): boolean => {
        const read = Buffer.allocUnsafe(bytesRead);
        (buffer as Buffer).copy(read, 0, 0, bytesRead);
        socket.emit("data", read);
        return true;
      },
    },
  });
  return socket;
}

/** What a header block says of the outcome; blocks that repeat are one object, and are read once. */
function fieldsOf(block: HeaderBlock): ResponseFields {
  if (block.derived !== undefined) return block.derived as ResponseFields;
  const fields: ResponseFields = { httpStatus: 0, grpcStatus: -1, grpcMessage: "" };
  for (const [name, value] of block) readResponseField(fields, name, value);
  block.derived = fields;
  return fields;
}

/** Without the prefix that says that HTTP/2 was not to blame. */
function reasonOf(error: Http2Error): string {
  return error.errorCode === ErrorCode.NO_ERROR && error.cause !== undefined ? messageOf(error.cause) : error.message;
}
