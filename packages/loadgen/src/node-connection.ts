import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, constants } from "node:http2";
import { errorName } from "@dlrm/h2";
import { GrpcStatus, statusOfReset } from "./grpc-status.ts";
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

const CONNECTION_WINDOW_BYTES = 16_777_216;

/** Calls over node:http2: the reference that the h2 client is compared with, and what to fall back to. */
export const connectNode: Connect = (target, events) =>
  new Promise((resolve, reject) => {
    const where = authorityOf(target.host, target.port);
    const session = connectHttp2(`http://${where}`, {
      settings: { enablePush: false, initialWindowSize: 1_048_576 },
    });
    const onError = (error: Error): void => {
      clearTimeout(timer);
      reject(new LoadError("connect_failed", `cannot connect to ${where}: ${messageOf(error)}`, { cause: error }));
    };
    const onEarlyClose = (): void => onError(new Error("the server closed the connection"));
    const timer = setTimeout(() => {
      session.destroy(new Error(`no HTTP/2 SETTINGS within ${CONNECT_TIMEOUT_MS} ms`));
    }, CONNECT_TIMEOUT_MS);
    session.once("error", onError);
    session.once("close", onEarlyClose);
    session.once("remoteSettings", () => {
      clearTimeout(timer);
      session.off("error", onError);
      session.off("close", onEarlyClose);
      session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
      resolve(new NodeConnection(session, target, events));
    });
  });

interface Call extends ResponseFields {
  token: number;
  bodyBytes: number;
  bodies: Buffer[] | undefined;
}

class NodeConnection implements RpcConnection {
  readonly #session: ClientHttp2Session;
  readonly #events: RpcEvents;
  readonly #headers: Record<string, string>;
  readonly #collectBodies: boolean;
  readonly #calls = new Map<ClientHttp2Stream, Call>();
  #closing = false;
  #closedByUs = false;
  #reason = "the connection is closed";

  constructor(session: ClientHttp2Session, target: RpcTarget, events: RpcEvents) {
    this.#session = session;
    this.#events = events;
    this.#headers = Object.fromEntries(requestFields(target));
    this.#collectBodies = target.collectBodies === true;
    session.on("error", (error) => {
      this.#reason = messageOf(error);
      this.#stopTaking();
    });
    session.on("goaway", (code) => {
      if (!this.#closedByUs) this.#reason = `the server sent GOAWAY: ${errorName(code)}`;
      this.#stopTaking();
    });
    session.on("close", () => {
      this.#stopTaking();
      for (const stream of this.#calls.keys()) this.#finish(stream, this.#lostStatus(), this.#reason);
      events.onClosed(this.#reason);
    });
  }

  get outstanding(): number {
    return this.#calls.size;
  }

  call(token: number, frame: Uint8Array): void {
    const stream = this.#session.request(this.#headers);
    this.#calls.set(stream, {
      token,
      bodyBytes: 0,
      bodies: undefined,
      httpStatus: 0,
      grpcStatus: -1,
      grpcMessage: "",
    });
    stream.on("response", (headers) => this.#onFields(stream, headers));
    stream.on("trailers", (headers) => this.#onFields(stream, headers));
    stream.on("data", (chunk: Buffer) => this.#onData(stream, chunk));
    stream.on("end", () => this.#onEnd(stream));
    // Node tells of a reset as an error first; 'close' follows and has the code.
    stream.on("error", () => {});
    stream.on("close", () => this.#onClose(stream));
    stream.end(frame);
  }

  close(): void {
    this.#closedByUs = true;
    this.#reason = "closed by the client";
    this.#stopTaking();
    this.#session.destroy(undefined, constants.NGHTTP2_CANCEL);
  }

  #onFields(stream: ClientHttp2Stream, headers: NodeJS.Dict<string | string[] | number>): void {
    const call = this.#calls.get(stream);
    if (call === undefined) return;
    for (const name of [":status", "grpc-status", "grpc-message"]) {
      const value = headers[name];
      if (value !== undefined) readResponseField(call, name, String(value));
    }
  }

  #onData(stream: ClientHttp2Stream, chunk: Buffer): void {
    const call = this.#calls.get(stream);
    if (call === undefined) return;
    call.bodyBytes += chunk.length;
    if (this.#collectBodies) (call.bodies ??= []).push(chunk);
  }

  #onEnd(stream: ClientHttp2Stream): void {
    const call = this.#calls.get(stream);
    // A reset also ends the readable side; 'close' tells the code.
    if (call === undefined || stream.rstCode !== 0 || stream.aborted || call.httpStatus === 0) return;
    const status = statusOfResponse(call, call.bodyBytes);
    this.#finish(stream, status, status === GrpcStatus.ok ? "" : detailOfResponse(call, status));
  }

  #onClose(stream: ClientHttp2Stream): void {
    const code = stream.rstCode;
    if (this.#session.destroyed || this.#session.closed) {
      this.#finish(stream, this.#lostStatus(), this.#reason);
    } else {
      this.#finish(stream, statusOfReset(code), `the stream was reset: ${errorName(code)}`);
    }
  }

  #lostStatus(): number {
    return this.#closedByUs ? GrpcStatus.cancelled : GrpcStatus.unavailable;
  }

  #finish(stream: ClientHttp2Stream, status: number, detail: string): void {
    const call = this.#calls.get(stream);
    if (call === undefined) return;
    this.#calls.delete(stream);
    if (call.bodies !== undefined) this.#events.onBody?.(call.token, Buffer.concat(call.bodies));
    this.#events.onAnswer(call.token, status, detail, call.bodyBytes);
  }

  #stopTaking(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#events.onClosing();
  }
}
