const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * How long the server was told that a call may take: `grpc-timeout` (gRPC over HTTP/2, "Requests") or `connect-timeout-ms`
 * (Connect protocol, "Unary-Request"). Infinity when it was told nothing, or nothing that is a duration.
 */
export function timeoutMsOf(header: Headers): number {
  const grpcMs = grpcTimeoutMs(header);
  return grpcMs < Infinity ? grpcMs : connectTimeoutMs(header);
}

/** As `timeoutMsOf`, of a call that has come: the header of another protocol means nothing to it. */
export function receivedTimeoutMs(header: Headers): number {
  return /^application\/grpc/iu.test(header.get("content-type") ?? "")
    ? grpcTimeoutMs(header)
    : connectTimeoutMs(header);
}

function grpcTimeoutMs(header: Headers): number {
  const grpc = /^(\d{1,8})([HMSmun])$/.exec(header.get("grpc-timeout") ?? "");
  return grpc === null ? Infinity : Number(grpc[1]) * (UNIT_MS[grpc[2] as string] as number);
}

function connectTimeoutMs(header: Headers): number {
  const connect = /^\d{1,10}$/.exec(header.get("connect-timeout-ms") ?? "");
  return connect === null ? Infinity : Number(connect[0]);
}
