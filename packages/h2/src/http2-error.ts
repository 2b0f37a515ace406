import { errorName } from "./protocol.ts";

/**
 * What went wrong on a connection. `scope` says what it ends: "connection" (sent as GOAWAY) or "stream" (sent as
 * RST_STREAM). `errorCode` is the HTTP/2 error code (RFC 9113, section 7); `code` its name, to match on.
 */
export class Http2Error extends Error {
  override readonly name = "Http2Error";
  readonly scope: "connection" | "stream";
  readonly errorCode: number;
  readonly code: string;

  constructor(scope: "connection" | "stream", errorCode: number, message: string, options?: ErrorOptions) {
    super(`${errorName(errorCode)}: ${message}`, options);
    this.scope = scope;
    this.errorCode = errorCode;
    this.code = errorName(errorCode);
  }
}

/** An error that ends the connection. */
export function connectionError(errorCode: number, message: string): Http2Error {
  return new Http2Error("connection", errorCode, message);
}
