/**
 * What went wrong, in a word that callers can match.
 *
 * | code | gRPC code | meaning |
 * | --- | --- | --- |
 * | `invalid_argument` | INVALID_ARGUMENT | the request is wrong, and will be however often it is sent |
 * | `not_found` | NOT_FOUND | no such model or version |
 * | `resource_exhausted` | RESOURCE_EXHAUSTED | over a limit, or the server is overloaded |
 * | `unavailable` | UNAVAILABLE | the server is starting or draining: another one can answer |
 * | `deadline_exceeded` | DEADLINE_EXCEEDED | the caller's deadline passed |
 * | `cancelled` | CANCELLED | the caller gave up |
 * | `unimplemented` | UNIMPLEMENTED | a message count or an encoding that is not served |
 * | `internal` | INTERNAL | a fault of the server |
 * | `invalid_options` | – | the options given to `startServer` contradict each other or are out of range |
 * | `startup_failed` | – | the bundle could not be opened, the port not bound or the device not started |
 */
export type ServerErrorCode =
  | "invalid_argument"
  | "not_found"
  | "resource_exhausted"
  | "unavailable"
  | "deadline_exceeded"
  | "cancelled"
  | "unimplemented"
  | "internal"
  | "invalid_options"
  | "startup_failed";

export interface ServerErrorOptions extends ErrorOptions {
  /** When it makes sense to try again, milliseconds; sent to gRPC clients as `grpc-retry-pushback-ms`. */
  readonly retryAfterMs?: number | undefined;
}

/** The one error class of this package: match `code`. */
export class ServerError extends Error {
  override readonly name = "ServerError";
  readonly code: ServerErrorCode;
  readonly retryAfterMs: number | undefined;

  constructor(code: ServerErrorCode, message: string, options: ServerErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Longest piece of a caller's text that is repeated in an error, in UTF-16 units. */
const MAX_QUOTED_LENGTH = 64;

/** A caller's text as it may stand in an error message: in quotes, escaped, and not long. */
export function quote(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED_LENGTH ? `${text.slice(0, MAX_QUOTED_LENGTH)}…` : text);
}
