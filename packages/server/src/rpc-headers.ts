import type { HandlerContext } from "@connectrpc/connect";
import { parseGrpcEncoding, parseGrpcTimeoutMs } from "./grpc-headers.ts";
import { ServerError } from "./server-error.ts";

/**
 * Throws what is wrong with the headers of a call with one request message. Connect's handlers would refuse the call as well,
 * but tell nobody: what is found here can be counted.
 */
export function checkRpcHeaders({ protocolName, requestHeader }: HandlerContext): void {
  const of = (name: string): string | undefined => requestHeader.get(name) ?? undefined;
  if (protocolName === "connect") {
    parseGrpcEncoding(of("content-encoding"));
    checkConnectTimeout(of("connect-timeout-ms"));
  } else {
    parseGrpcEncoding(of("grpc-encoding"));
    parseGrpcTimeoutMs(of("grpc-timeout"));
  }
}

/** https://connectrpc.com/docs/protocol: at most 10 digits. */
function checkConnectTimeout(value: string | undefined): void {
  if (value === undefined || /^\d{1,10}$/u.test(value)) return;
  throw new ServerError("invalid_argument", `protocol error: invalid connect timeout value: ${value}`);
}
