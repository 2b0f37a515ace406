import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { Code } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { BeginRpcCall } from "./rpc-call.ts";
import type { RequestListener } from "./node-transport.ts";

export interface RpcListenerOptions {
  readonly handlers: readonly UniversalHandler[];
  readonly beginCall: BeginRpcCall;
  /** Whether connections are to be closed after the next answer. */
  readonly isClosing: () => boolean;
  /** A request failed in a way that its caller cannot be told of any more. */
  readonly onFailure: (error: unknown, path: string) => void;
}

type Request = IncomingMessage | Http2ServerRequest;
/** What both have in common; each type alone narrows `writeHead` in its own way. */
type Response = (ServerResponse | Http2ServerResponse) & {
  writeHead(status: number, headers: OutgoingHttpHeaders): unknown;
};

/** Serves Connect's handlers, which speak gRPC, gRPC-web and Connect, to Node's HTTP/1.1 and HTTP/2 servers. */
export function createRpcListener(options: RpcListenerOptions): RequestListener {
  const { beginCall, isClosing, onFailure } = options;
  const handlers = new Map(options.handlers.map((handler) => [handler.requestPath, handler]));

  const serve = async (handler: UniversalHandler, request: Request, response: Response): Promise<void> => {
    try {
      const call = beginCall(handler, universalRequestFromNodeRequest(request, response, undefined, undefined));
      // The promise of a written answer does not settle over HTTP/2 in every case; that an answer closes does not fail.
      response.once("close", call.end);
      const answer = await handler(call.request);
      // Else Connect would read the rest of a request of HTTP/1.1 before it answers.
      if (call.isLate() && !(response instanceof Http2ServerResponse)) response.shouldKeepAlive = false;
      await universalResponseToNodeResponse(answer, response);
    } catch (error) {
      if (isOver(request, response)) return;
      onFailure(error, handler.requestPath);
      fail(response);
    }
  };

  return (request, response) => {
    // A connection that breaks is seen by the handler; without a listener it would be an uncaught error.
    request.on("error", ignore);
    response.on("error", ignore);
    if (isClosing() && !(request instanceof Http2ServerRequest)) response.setHeader("connection", "close");
    const path = (request.url ?? "").split("?", 1)[0] as string;
    const handler = handlers.get(path);
    if (handler === undefined) answerUnknown(path, request, response);
    // Connect needs an authority to make a URL of, whatever it is: a missing or malformed one is no reason to fail.
    else if (hasUsableAuthority(request)) void serve(handler, request, response);
    else answerPlain(response, 400, BAD_AUTHORITY);
  };
}

function hasUsableAuthority(request: Request): boolean {
  return isUsableAuthority("authority" in request ? request.authority : request.headers.host);
}

/** Whether a URL can be made of it. */
export function isUsableAuthority(authority: string | undefined): boolean {
  return authority !== undefined && URL.canParse(`http://${authority}/`);
}

export const BAD_AUTHORITY = "malformed request: expected a host or :authority header";

/** For a path that nobody serves. */
export function noSuchMethod(path: string): string {
  return `no such method: ${path.slice(0, 128).toWellFormed()}`;
}

function answerUnknown(path: string, request: Request, response: Response): void {
  const message = noSuchMethod(path);
  if (!/^application\/grpc/iu.test(request.headers["content-type"] ?? "")) {
    answerPlain(response, 404, message);
    return;
  }
  request.resume();
  // A gRPC answer with no message is one block of headers.
  response.writeHead(200, {
    "content-type": "application/grpc",
    "grpc-status": String(Code.Unimplemented),
    "grpc-message": encodeURIComponent(message),
  });
  response.end();
}

function answerPlain(response: Response, status: number, message: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${message}\n`);
}

function isOver(request: Request, response: Response): boolean {
  return response.writableEnded || response.destroyed || request.destroyed || request.errored !== null;
}

/** The last resort: an answer that is not a success. */
function fail(response: Response): void {
  if (response.headersSent) response.destroy();
  else answerPlain(response, 500, "internal error");
}

function ignore(): void {}
