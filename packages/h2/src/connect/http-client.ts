import { Code, ConnectError } from "@connectrpc/connect";
import type { UniversalClientFn, UniversalClientRequest, UniversalClientResponse } from "@connectrpc/connect/protocol";
import type { Http2Connection } from "../connection.ts";
import type { HeaderBlock } from "../header-block.ts";
import { encodeHeaderBlock, type HeaderField } from "../hpack-encoder.ts";
import { Http2Error } from "../http2-error.ts";
import { ErrorCode } from "../protocol.ts";
import type { Http2Stream, StreamHandler } from "../stream.ts";
import { BodyReader } from "./body-reader.ts";
import { timeoutMsOf } from "./call-deadline.ts";
import type { ClientChannel } from "./client-channel.ts";
import { codeFromReset } from "./reset-code.ts";

/** What one call needs beside its stream. */
interface Call {
  readonly response: Promise<UniversalClientResponse>;
  readonly trailer: Headers;
  readonly onResponse: (response: UniversalClientResponse) => void;
  readonly onFailure: (error: ConnectError) => void;
  /** By `performance.now`; Infinity if it has none. */
  readonly deadlineMs: number;
  body: BodyReader | undefined;
  writable: (() => void) | undefined;
  /** Why it failed, once it has. */
  error: ConnectError | undefined;
  /** The connection whose server has not looked at the call, if that is why it failed (RFC 9113, section 8.7). */
  refusedBy: Http2Connection | undefined;
}

/** Connect's client of HTTP, over a channel: `createTransport` of each of Connect's protocols takes it as `httpClient`. */
export function createHttpClient(channel: ClientChannel): UniversalClientFn {
  return async (request) => {
    try {
      return await send(channel, request, createCall(deadlineOf(request)), request.body);
    } catch (cause) {
      throw connectErrorOf(cause);
    }
  };
}

/**
 * The same for calls whose body is one message, and so in memory anyway: a call that the server has not looked at (it
 * refused the stream, or said so by GOAWAY) is sent once more, over another connection.
 */
export function createUnaryHttpClient(channel: ClientChannel): UniversalClientFn {
  return async (request) => {
    try {
      const deadlineMs = deadlineOf(request);
      const body = request.body === undefined ? undefined : await collect(request.body);
      const call = createCall(deadlineMs);
      try {
        return await send(channel, request, call, body);
      } catch (cause) {
        if (call.refusedBy === undefined) throw cause;
        channel.retire(call.refusedBy);
        return await send(channel, request, createCall(deadlineMs), body);
      }
    } catch (cause) {
      throw connectErrorOf(cause);
    }
  };
}

function deadlineOf(request: UniversalClientRequest): number {
  return performance.now() + timeoutMsOf(request.header);
}

function createCall(deadlineMs: number): Call {
  const { promise, resolve, reject } = Promise.withResolvers<UniversalClientResponse>();
  return {
    response: promise,
    trailer: new Headers(),
    onResponse: resolve,
    onFailure: reject,
    deadlineMs,
    body: undefined,
    writable: undefined,
    error: undefined,
    refusedBy: undefined,
  };
}

async function collect(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return pieces.length === 1 ? (pieces[0] as Uint8Array) : Buffer.concat(pieces);
}

const handler: StreamHandler = {
  body: "pieces",
  onHeaders(stream, headers) {
    const call = callOf(stream);
    call.body = new BodyReader(stream);
    call.onResponse({
      status: Number(headers.get(":status")),
      header: headersOf(headers),
      body: readUntilDone(stream, call.body),
      trailer: call.trailer,
    });
  },
  onData: (stream, piece) => callOf(stream).body?.push(piece),
  onEnd(stream, trailers) {
    const call = callOf(stream);
    for (const [name, value] of trailers ?? []) call.trailer.append(name, value);
    call.body?.end();
  },
  onWritable: (stream) => callOf(stream).writable?.(),
  onReset(stream, errorCode) {
    const call = callOf(stream);
    if (errorCode === ErrorCode.REFUSED_STREAM && call.body === undefined) call.refusedBy = stream.connection;
    fail(
      call,
      stream.connection.isClosed
        ? new ConnectError("the connection was lost", Code.Unavailable)
        : errorOf(call, errorCode),
    );
  },
};

/** A server too gives a call up at its deadline; its reset may be here before the client's own timer has fired. */
function errorOf(call: Call, errorCode: number): ConnectError {
  return errorCode === ErrorCode.CANCEL && performance.now() >= call.deadlineMs
    ? new ConnectError("the operation timed out", Code.DeadlineExceeded)
    : new ConnectError("the server reset the call", codeFromReset(errorCode));
}

/** Resolves with the answer once its headers have come. A body that is not whole yet goes on meanwhile. */
async function send(
  channel: ClientChannel,
  request: UniversalClientRequest,
  call: Call,
  body: Uint8Array | AsyncIterable<Uint8Array> | undefined,
): Promise<UniversalClientResponse> {
  const { signal } = request;
  const isWhole = body === undefined || body instanceof Uint8Array;
  const stream = await channel.open(encodeHead(request), handler, {
    context: call,
    body: isWhole ? body : undefined,
    endStream: isWhole,
    signal,
  });
  const onAbort = (): void => {
    fail(call, connectErrorOf(signal?.reason));
    stream.reset(ErrorCode.CANCEL);
  };
  // It may have been aborted before the stream was handed over.
  if (signal?.aborted === true) onAbort();
  else signal?.addEventListener("abort", onAbort, { once: true });
  if (!isWhole) void sendBody(stream, call, body);
  return call.response;
}

function callOf(stream: Http2Stream): Call {
  return stream.context as Call;
}

/** The first reason counts: what follows is its consequence. */
function fail(call: Call, error: ConnectError): void {
  if (call.error !== undefined) return;
  call.error = error;
  call.onFailure(error);
  call.body?.fail(error);
  call.writable?.();
}

async function sendBody(stream: Http2Stream, call: Call, body: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const piece of body) {
      if (stream.closed) return;
      if (!stream.sendData(piece)) await new Promise<void>((resolve) => (call.writable = resolve));
    }
    if (!stream.localEnded) stream.sendData(new Uint8Array(), true);
  } catch (cause) {
    fail(call, connectErrorOf(cause));
    stream.reset(ErrorCode.CANCEL);
  }
}

/** Whoever stops reading needs no more of the answer. */
async function* readUntilDone(stream: Http2Stream, body: BodyReader): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } finally {
    body.close();
    if (!stream.remoteEnded) stream.reset(ErrorCode.CANCEL);
  }
}

function encodeHead(request: UniversalClientRequest): Buffer {
  const url = new URL(request.url);
  const fields: HeaderField[] = [
    [":method", request.method],
    [":scheme", url.protocol.slice(0, -1)],
    [":path", url.pathname + url.search],
    [":authority", url.host],
  ];
  for (const [name, value] of request.header) fields.push([name, value]);
  return encodeHeaderBlock(fields);
}

function headersOf(block: HeaderBlock): Headers {
  const headers = new Headers();
  for (const [name, value] of block) {
    if (!name.startsWith(":")) headers.append(name, value);
  }
  return headers;
}

function connectErrorOf(cause: unknown): ConnectError {
  if (cause instanceof Http2Error)
    return new ConnectError(cause.message, Code.Unavailable, undefined, undefined, cause);
  return ConnectError.from(cause);
}
