import { ServerError } from "./server-error.ts";

/** Compressions of request messages. */
export type GrpcEncoding = "identity" | "gzip";

/** https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: at most 8 digits and a unit. */
const TIMEOUT = /^(\d{1,8})([HMSmun])$/u;
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/** Whether a content type is that of gRPC with protobuf messages. */
export function isGrpcProto(contentType: string | undefined): boolean {
  return contentType === "application/grpc" || contentType === "application/grpc+proto";
}

/** Value of `grpc-encoding`; throws `unimplemented`. */
export function parseGrpcEncoding(value: string | readonly string[] | undefined): GrpcEncoding {
  const encoding = value ?? "identity";
  if (encoding === "identity" || encoding === "gzip") return encoding;
  throw new ServerError(
    "unimplemented",
    `unknown compression ${JSON.stringify(encoding)}: supported encodings are gzip, identity`,
  );
}

/** Value of `grpc-timeout` in milliseconds, undefined if there is none; throws `invalid_argument`. */
export function parseGrpcTimeoutMs(value: string | readonly string[] | undefined): number | undefined {
  if (value === undefined) return undefined;
  const match = typeof value === "string" ? TIMEOUT.exec(value) : null;
  if (match === null) {
    throw new ServerError("invalid_argument", `protocol error: invalid grpc timeout value: ${String(value)}`);
  }
  return Number(match[1]) * (UNIT_MS[match[2] as string] as number);
}
