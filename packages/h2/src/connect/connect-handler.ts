import {
  Code,
  ConnectError,
  createConnectRouter,
  type ConnectRouter,
  type ConnectRouterOptions,
} from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerRequest, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { encodeHeaderBlock, type HeaderField } from "../hpack-encoder.ts";
import { ErrorCode } from "../protocol.ts";
import type { Http2Stream, StreamHandler } from "../stream.ts";
import { TimerWheel, type WheelTimer } from "../timer-wheel.ts";
import { BodyReader } from "./body-reader.ts";
import { limitTimeout, receivedTimeoutMs } from "./call-deadline.ts";
import { withoutUndefined } from "../without-undefined.ts";
import { defaultCompressions } from "./compression.ts";
import { codeFromReset } from "./reset-code.ts";

/** As gRPC's servers have it. Connect's own default is 4 GiB: a small compressed message would take all memory there is. */
const DEFAULT_READ_MAX_BYTES = 4 * 1024 * 1024;

/** How long after its deadline a body is given up that has not come whole: a handler that looks to that itself is to be the first. */
const BODY_GRACE_MS = 10;

export interface ConnectHandlerOptions extends ConnectRouterOptions {
  /** Largest message that is read, bytes, compressed and not: RESOURCE_EXHAUSTED beyond it. Defaults to 4 MiB. */
  readonly readMaxBytes?: number;
  /**
   * Adds the services to a router, which is made with the rest of these options. It accepts requests compressed with gzip or
   * Brotli, and compresses answers for whoever accepts them, unless `acceptCompression` says otherwise.
   */
  readonly routes?: (router: ConnectRouter) => void;
  /**
   * Handlers of a `createConnectRouter(…)` of your own, beside or instead of `routes`. They are as they were made: a router
   * accepts no compression, and reads messages of up to 4 GiB, unless it is told otherwise.
   */
  readonly handlers?: readonly UniversalHandler[];
  /** "http" (the default) or "https": what the requests' URLs say. */
  readonly scheme?: "http" | "https";
  /** An error that the client can no longer be told of. */
  readonly onFailure?: (error: unknown, path: string) => void;
  /** Whoever takes requests for paths that no handler has; 404 by default. */
  readonly fallback?: (stream: Http2Stream) => StreamHandler;
}

/** What one call needs beside its stream. */
interface Call {
  readonly body: BodyReader;
  readonly abort: AbortController;
  writable: (() => void) | undefined;
  /** Up to when its body is to have come whole; valid iff it has a deadline. */
  deadline: WheelTimer<Call> | undefined;
}

function handlersOf(options: ConnectHandlerOptions): UniversalHandler[] {
  const { routes, handlers = [], ...routerOptions } = options;
  const router = createConnectRouter({
    acceptCompression: [...defaultCompressions],
    readMaxBytes: DEFAULT_READ_MAX_BYTES,
    ...withoutUndefined(routerOptions),
  });
  routes?.(router);
  return [...router.handlers, ...handlers];
}

const notFound = encodeHeaderBlock([[":status", "404"]]);
const internalError = encodeHeaderBlock([[":status", "500"]]);

/**
 * Serves Connect's universal handlers (gRPC, gRPC-web and Connect) over this package's connections: give the result as
 * `onRequest` to a server. A call whose request has not come whole by its deadline is answered DEADLINE_EXCEEDED.
 */
export function createConnectHandler(options: ConnectHandlerOptions): (stream: Http2Stream) => StreamHandler {
  const { scheme = "http", onFailure } = options;
  const handlers = new Map(handlersOf(options).map((handler) => [handler.requestPath, handler]));
  const discard: StreamHandler = { body: "pieces" };
  const fallback =
    options.fallback ??
    ((stream: Http2Stream): StreamHandler => {
      stream.respond(notFound);
      return discard;
    });

  // Connect's own timer for a call tells the method only, which is not called before a message is there.
  const deadlines = new TimerWheel<Call>({
    onExpired: ({ body }) =>
      body.expire(new ConnectError("the deadline passed before the request had come whole", Code.DeadlineExceeded)),
  });

  const streamHandler: StreamHandler = {
    body: "pieces",
    onData: (stream, piece) => callOf(stream).body.push(piece),
    onEnd(stream) {
      const { body, deadline } = callOf(stream);
      body.end();
      if (deadline !== undefined) deadlines.cancel(deadline);
    },
    onWritable: (stream) => callOf(stream).writable?.(),
    onReset(stream, errorCode) {
      const call = callOf(stream);
      const error = new ConnectError("the call was cancelled", codeFromReset(errorCode));
      call.body.fail(error);
      call.abort.abort(error);
      call.writable?.();
    },
  };

  async function serve(handler: UniversalHandler, stream: Http2Stream, call: Call): Promise<void> {
    try {
      const request = toUniversalRequest(stream, call, scheme);
      limitTimeout(request.header);
      const timeoutMs = receivedTimeoutMs(request.header);
      if (timeoutMs < Infinity) call.deadline = deadlines.add(call, timeoutMs + BODY_GRACE_MS);
      await send(stream, call, await handler(request));
    } catch (error) {
      if (stream.closed) return;
      onFailure?.(error, handler.requestPath);
      if (stream.headersSent) stream.reset(ErrorCode.INTERNAL_ERROR);
      else stream.respond(internalError);
    } finally {
      call.body.close();
      if (call.deadline !== undefined) deadlines.cancel(call.deadline);
      // Whoever waits for the signal must not wait for ever.
      call.abort.abort();
    }
  }

  return (stream) => {
    const path = (stream.headers?.get(":path") ?? "").split("?", 1)[0] as string;
    const handler = handlers.get(path);
    if (handler === undefined) return fallback(stream);
    const call: Call = {
      body: new BodyReader(stream),
      abort: new AbortController(),
      writable: undefined,
      deadline: undefined,
    };
    stream.context = call;
    void serve(handler, stream, call);
    return streamHandler;
  };
}

function callOf(stream: Http2Stream): Call {
  return stream.context as Call;
}

function toUniversalRequest(stream: Http2Stream, call: Call, scheme: string): UniversalServerRequest {
  const header = new Headers();
  let authority = "localhost";
  let method = "";
  let path = "/";
  for (const [name, value] of stream.headers ?? []) {
    if (name === ":authority" || (name === "host" && authority === "localhost")) authority = value;
    else if (name === ":method") method = value;
    else if (name === ":path") path = value;
    // Section 8.2.3 of RFC 9113: cookies may come in several fields, and are one.
    else if (name === "cookie" && header.has("cookie")) header.set("cookie", `${header.get("cookie")}; ${value}`);
    else if (!name.startsWith(":")) header.append(name, value);
  }
  // Connect makes a URL of it: an authority that is none must not fail the call.
  const base = URL.canParse(`${scheme}://${authority}/`) ? `${scheme}://${authority}` : `${scheme}://localhost`;
  return { httpVersion: "2.0", url: base + path, method, header, body: call.body, signal: call.abort.signal };
}

async function send(stream: Http2Stream, call: Call, answer: UniversalServerResponse): Promise<void> {
  let headersSent = false;
  // Connect's handlers may set headers until their first piece is there.
  const sendHead = (endStream: boolean): void => {
    const fields: HeaderField[] = [[":status", String(answer.status)], ...fieldsOf(answer.header)];
    stream.sendHeaders(encodeHeaderBlock(fields), endStream);
    headersSent = true;
  };
  if (answer.body !== undefined) {
    for await (const piece of answer.body) {
      if (stream.closed) return;
      // With the first piece, so that both leave in one write.
      if (!headersSent) sendHead(false);
      if (!stream.sendData(piece)) await new Promise<void>((resolve) => (call.writable = resolve));
    }
  }
  // The trailer is known only when the body has ended.
  const trailer = fieldsOf(answer.trailer);
  if (!headersSent) sendHead(trailer.length === 0);
  if (trailer.length > 0) stream.sendTrailers(encodeHeaderBlock(trailer));
  else if (!stream.localEnded) stream.sendData(new Uint8Array(), true);
}

function fieldsOf(headers: Headers | undefined): HeaderField[] {
  return headers === undefined ? [] : [...headers].map(([name, value]) => [name, value] as const);
}
