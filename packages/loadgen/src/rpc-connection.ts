/** Which HTTP/2 client carries the calls: `h2` is @dlrm/h2, `node` is node:http2. */
export type TransportKind = "h2" | "node";

/** The one gRPC method that a connection calls, over plaintext HTTP/2 (h2c with prior knowledge). */
export interface RpcTarget {
  readonly host: string;
  readonly port: number;
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Sent with every call as grpc-timeout, for the server to hold; none when undefined. Milliseconds, an integer ≥ 1. */
  readonly deadlineMs?: number | undefined;
  /** Whether {@link RpcEvents.onBody} is called; costs a copy of each response. */
  readonly collectBodies?: boolean | undefined;
}

/**
 * What happens on a connection. `token` is the number that the caller gave to {@link RpcConnection.call}; every call is
 * answered exactly once. Calls may be made from within these.
 */
export interface RpcEvents {
  /**
   * A call is over. `status` is the gRPC status number; `detail` says more where it isn't OK; `bodyBytes` is the size of
   * the response body, message prefix included.
   */
  onAnswer(token: number, status: number, detail: string, bodyBytes: number): void;
  /** The body of a response, just before its `onAnswer`. */
  onBody?(token: number, body: Buffer): void;
  /** No more calls may be made on this connection; those outstanding may still be answered. Called once. */
  onClosing(): void;
  /** The connection is gone, all its calls have been answered. Called once, after `onClosing`. */
  onClosed(reason: string): void;
}

/** One open HTTP/2 connection that makes unary calls of one method. */
export interface RpcConnection {
  /** Calls that are not answered yet. */
  readonly outstanding: number;
  /** Starts a call. `frame` is the whole gRPC frame (5-byte prefix and message); it must not change until the answer. */
  call(token: number, frame: Uint8Array): void;
  /** Cancels what is outstanding (answered as CANCELLED) and closes. */
  close(): void;
}

/** Opens a connection; resolves once calls can be made, rejects with a LoadError `connect_failed`. */
export type Connect = (target: RpcTarget, events: RpcEvents) => Promise<RpcConnection>;

/** A server that accepts a connection but never speaks HTTP/2 is given up after this. */
export const CONNECT_TIMEOUT_MS = 20_000;

/** `host:port` as it stands in :authority, IPv6 in brackets. */
export function authorityOf(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Header fields of every call of a target, in the order gRPC wants them. */
export function requestFields(target: RpcTarget): (readonly [name: string, value: string])[] {
  return [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", target.path],
    [":authority", authorityOf(target.host, target.port)],
    ["te", "trailers"],
    ["content-type", "application/grpc"],
    ...(target.deadlineMs === undefined ? [] : [["grpc-timeout", grpcTimeout(target.deadlineMs)] as const]),
    ["user-agent", "dlrm-loadgen"],
  ];
}

/** A grpc-timeout value: at most 8 digits and a unit. */
export function grpcTimeout(deadlineMs: number): string {
  return deadlineMs < 100_000_000 ? `${deadlineMs}m` : `${Math.min(99_999_999, Math.ceil(deadlineMs / 1000))}S`;
}
