import { Code, type ConnectError } from "@connectrpc/connect";
import { encodeHeaderBlock } from "@dlrm/h2";

/** Header and trailer blocks of gRPC's answers, encoded for HTTP/2. */
export const GRPC_HEAD: Buffer = encodeHeaderBlock([
  [":status", "200"],
  ["content-type", "application/grpc"],
]);
export const GRPC_OK_TRAILERS: Buffer = encodeHeaderBlock([["grpc-status", "0"]]);

/** An answer without a message is one block of headers. */
export function grpcErrorBlock({ code, rawMessage, metadata }: ConnectError): Buffer {
  return encodeHeaderBlock([
    [":status", "200"],
    ["content-type", "application/grpc"],
    ["grpc-accept-encoding", "gzip,identity"],
    ...metadata,
    ["grpc-status", String(code)],
    ["grpc-message", encodeURIComponent(rawMessage)],
  ]);
}

export function grpcUnimplementedBlock(message: string): Buffer {
  return encodeHeaderBlock([
    [":status", "200"],
    ["content-type", "application/grpc"],
    ["grpc-status", String(Code.Unimplemented)],
    ["grpc-message", encodeURIComponent(message)],
  ]);
}
