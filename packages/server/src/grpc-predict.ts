import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { PredictionService } from "@dlrm/proto";
import { toConnectError } from "./connect-error.ts";
import { FramedMessage } from "./framed-message.ts";
import { framePredictResponse } from "./predict-response.ts";
import type { Predictor } from "./predictor.ts";
import { ServerError } from "./server-error.ts";

export interface GrpcPredictOptions {
  readonly predictor: Predictor;
  /** Largest request message, bytes, compressed and not. */
  readonly maxMessageBytes: () => number;
  /** Throws if the server takes no requests now. */
  readonly gate: () => void;
  /** Called when a request has come; returns what to call when it is over. */
  readonly onRequest: () => () => void;
}

/** Takes a stream and returns true, or leaves it to others. */
export type StreamListener = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => boolean;

const PATH = `/${PredictionService.typeName}/${PredictionService.method.predict.name}`;
const CONTENT_TYPE = "application/grpc";
const OK_TRAILERS: OutgoingHttpHeaders = { "grpc-status": "0" };
/** https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md: at most 8 digits and a unit. */
const TIMEOUT = /^(\d{1,8})([HMSmun])$/u;
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * Predict over gRPC, straight from the HTTP/2 stream: the one method and protocol that carries the load, at a fraction of what
 * Connect's handlers cost, which serve all others. What callers see is the same.
 */
export function createGrpcPredict(options: GrpcPredictOptions): StreamListener {
  return (stream, headers) => {
    const contentType = headers["content-type"];
    const isGrpc = contentType === CONTENT_TYPE || contentType === "application/grpc+proto";
    if (!isGrpc || headers[":path"] !== PATH || headers[":method"] !== "POST") return false;
    new GrpcPredictCall(stream, headers, options).start();
    return true;
  };
}

class GrpcPredictCall {
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #options: GrpcPredictOptions;
  readonly #cancelled = new AbortController();
  readonly #leave: () => void;
  #answered = false;

  constructor(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, options: GrpcPredictOptions) {
    this.#stream = stream;
    this.#headers = headers;
    this.#options = options;
    this.#leave = options.onRequest();
  }

  start(): void {
    const stream = this.#stream;
    stream.on("error", ignore);
    stream.once("close", () => {
      this.#leave();
      if (!this.#answered) this.#cancelled.abort(new ServerError("cancelled", "the request was cancelled"));
    });
    try {
      this.#options.gate();
      const encoding = this.#encoding();
      const deadlineAtMs = this.#deadlineAtMs();
      const message = new FramedMessage(this.#options.maxMessageBytes());
      stream.on("data", (chunk: Buffer) => {
        if (this.#answered) return;
        try {
          message.push(chunk);
        } catch (error) {
          this.#refuse(this.#options.predictor.failed(error));
        }
      });
      stream.once("end", () => {
        if (!this.#answered) void this.#predict(message, encoding, deadlineAtMs);
      });
    } catch (error) {
      this.#refuse(error);
    }
  }

  async #predict(message: FramedMessage, encoding: string, deadlineAtMs: number | undefined): Promise<void> {
    const { predictor } = this.#options;
    try {
      let finished: Uint8Array | Promise<Uint8Array>;
      try {
        finished = message.finish(encoding);
        if (finished instanceof Promise) finished = await finished;
      } catch (error) {
        throw predictor.failed(error);
      }
      const { scores, version } = await predictor.predict(
        { bytes: finished, json: false },
        {
          signal: this.#cancelled.signal,
          deadlineMs: deadlineAtMs === undefined ? undefined : deadlineAtMs - performance.now(),
        },
      );
      this.#answer(framePredictResponse(scores, version));
    } catch (error) {
      this.#refuse(error);
    }
  }

  #answer(body: Buffer): void {
    const stream = this.#stream;
    this.#answered = true;
    if (stream.destroyed || stream.closed) return;
    stream.once("wantTrailers", sendOkTrailers);
    stream.respond({ ":status": 200, "content-type": CONTENT_TYPE }, { waitForTrailers: true });
    stream.end(body);
  }

  #refuse(error: unknown): void {
    const stream = this.#stream;
    if (this.#answered) return;
    this.#answered = true;
    if (stream.destroyed || stream.closed) return;
    const { code, rawMessage, metadata } = toConnectError(error);
    // An answer without a message is one block of headers.
    stream.respond(
      {
        ":status": 200,
        "content-type": CONTENT_TYPE,
        "grpc-accept-encoding": "gzip,identity",
        ...Object.fromEntries(metadata),
        "grpc-status": String(code),
        "grpc-message": encodeURIComponent(rawMessage),
      },
      { endStream: true },
    );
    // Tells a caller who is still sending to stop, once the answer is out; reads what comes meanwhile.
    stream.resume();
    setImmediate(() => {
      if (!stream.closed && stream.state.remoteClose === 0) stream.close(constants.NGHTTP2_NO_ERROR);
    });
  }

  #encoding(): string {
    const encoding = this.#headers["grpc-encoding"] ?? "identity";
    if (encoding === "identity" || encoding === "gzip") return encoding;
    throw new ServerError(
      "unimplemented",
      `unknown compression ${JSON.stringify(encoding)}: supported encodings are gzip, identity`,
    );
  }

  /** When the caller stops waiting, on `performance.now()`'s clock. */
  #deadlineAtMs(): number | undefined {
    const text = this.#headers["grpc-timeout"];
    if (text === undefined) return undefined;
    const match = typeof text === "string" ? TIMEOUT.exec(text) : null;
    if (match === null) {
      throw new ServerError("invalid_argument", `protocol error: invalid grpc timeout value: ${String(text)}`);
    }
    return performance.now() + Number(match[1]) * (UNIT_MS[match[2] as string] as number);
  }
}

function sendOkTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(OK_TRAILERS);
}

function ignore(): void {}
