import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";

/** A call on its way through one of Connect's handlers. */
export interface RpcCall {
  /** What the handler is to be given: its message is read by us. */
  readonly request: UniversalServerRequest;
  /** Whether its deadline has passed before its message had come whole: who waits for the rest of it may wait for ever. */
  readonly isLate: () => boolean;
  /** To be called when the call is over. */
  readonly end: () => void;
}

/** Called when a request has come. */
export type BeginRpcCall = (handler: UniversalHandler, request: UniversalServerRequest) => RpcCall;
