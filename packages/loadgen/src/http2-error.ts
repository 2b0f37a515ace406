import { http2ErrorName } from "./frame.ts";
import { LoadError } from "./load-error.ts";

/** A breach of HTTP/2 by the peer that ends the connection; `http2Code` is what GOAWAY tells it. */
export class Http2Error extends LoadError {
  override readonly name: string = "Http2Error";
  readonly http2Code: number;

  constructor(http2Code: number, message: string) {
    super("protocol_error", `${http2ErrorName(http2Code)}: ${message}`);
    this.http2Code = http2Code;
  }
}
