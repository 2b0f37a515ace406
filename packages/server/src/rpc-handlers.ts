import { type ConnectRouter, createConnectRouter, type HandlerContext } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { compressionGzip } from "@connectrpc/connect-node";

export interface RpcHandlerOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** Runs before a request's body is read; what it throws is the answer. */
  readonly gate: (context: HandlerContext) => void;
}

/** Connect's handlers of the server's methods, which speak gRPC, gRPC-web and Connect. */
export function createRpcHandlers({ routes, gate }: RpcHandlerOptions): readonly UniversalHandler[] {
  const router = createConnectRouter({ acceptCompression: [compressionGzip], requestGate: gate });
  routes(router);
  return router.handlers;
}
