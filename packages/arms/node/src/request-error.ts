import { status } from "@grpc/grpc-js";

/** Why a request has no scores; `code` is a gRPC status. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly code: status;

  constructor(code: status, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export function invalid(message: string, options?: ErrorOptions): RequestError {
  return new RequestError(status.INVALID_ARGUMENT, message, options);
}

/** Most of a caller's text that is repeated in an error, in UTF-16 units. */
const MAX_QUOTED_LENGTH = 64;

export function quote(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED_LENGTH ? `${text.slice(0, MAX_QUOTED_LENGTH)}…` : text);
}
