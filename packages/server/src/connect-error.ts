import { Code, ConnectError } from "@connectrpc/connect";
import { ServerError, type ServerErrorCode } from "./server-error.ts";

const codes: Record<ServerErrorCode, Code> = {
  invalid_argument: Code.InvalidArgument,
  not_found: Code.NotFound,
  resource_exhausted: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  deadline_exceeded: Code.DeadlineExceeded,
  cancelled: Code.Canceled,
  unimplemented: Code.Unimplemented,
  internal: Code.Internal,
  invalid_options: Code.Internal,
  startup_failed: Code.Internal,
};

/** A gRPC message travels in a header, of which peers accept a few KiB: percent-encoding may triple it. */
const MAX_MESSAGE_LENGTH = 1024;

/** The error as it goes to the caller. Faults of the server say no more than that it has failed. */
export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (!(error instanceof ServerError)) {
    return new ConnectError("internal error", Code.Internal, undefined, undefined, error);
  }
  const { message, retryAfterMs } = error;
  const metadata =
    retryAfterMs === undefined ? undefined : { "grpc-retry-pushback-ms": String(Math.ceil(Math.max(0, retryAfterMs))) };
  const shown = message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH)}…` : message;
  // A lone surrogate, which JSON can carry, cannot be percent-encoded.
  return new ConnectError(shown.toWellFormed(), codes[error.code], metadata, undefined, error);
}
