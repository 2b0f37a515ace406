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
  return isGrpc(header) ? grpcTimeoutMs(header) : connectTimeoutMs(header);
}

/** Most that a timer waits, 24 days: one that is to wait longer goes off at once, as Connect's own for a call would. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Brings the deadline of a call that has come within what a timer can wait. */
export function limitTimeout(header: Headers): void {
  const timeoutMs = receivedTimeoutMs(header);
  if (timeoutMs === Infinity || timeoutMs <= MAX_TIMER_MS) return;
  if (isGrpc(header)) header.set("grpc-timeout", `${Math.floor(MAX_TIMER_MS / 1000)}S`);
  else header.set("connect-timeout-ms", `${MAX_TIMER_MS}`);
}

function isGrpc(header: Headers): boolean {
  return /^application\/grpc/iu.test(header.get("content-type") ?? "");
}

function grpcTimeoutMs(header: Headers): number {
  const grpc = /^(\d{1,8})([HMSmun])$/.exec(header.get("grpc-timeout") ?? "");
  return grpc === null ? Infinity : Number(grpc[1]) * (UNIT_MS[grpc[2] as string] as number);
}

function connectTimeoutMs(header: Headers): number {
  const connect = /^\d{1,10}$/.exec(header.get("connect-timeout-ms") ?? "");
  return connect === null ? Infinity : Number(connect[0]);
}
