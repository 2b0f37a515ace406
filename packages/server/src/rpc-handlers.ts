import { type ConnectRouter, createConnectRouter, type HandlerContext } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { compressionGzip } from "@connectrpc/connect-node";

export interface RpcHandlerOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** Runs before a request's body is read; what it throws is the answer. */
  readonly gate: (context: HandlerContext) => void;
}

/**
 * Messages that Connect reads itself, bytes: those of streams of requests, which are small. All others are read by
 * `request-message.ts`, under the limit for them.
 */
const MAX_STREAMED_MESSAGE_BYTES = 64 * 1024;

/** Whether Connect reads the messages of a method itself, as there may be several. */
export function readsStream({ method }: UniversalHandler): boolean {
  return method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
}

/** Connect's handlers of the server's methods, which speak gRPC, gRPC-web and Connect. */
export function createRpcHandlers({ routes, gate }: RpcHandlerOptions): readonly UniversalHandler[] {
  const router = createConnectRouter({
    acceptCompression: [compressionGzip],
    readMaxBytes: MAX_STREAMED_MESSAGE_BYTES,
    requestGate: gate,
  });
  routes(router);
  return router.handlers;
}
