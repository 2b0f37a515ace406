import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { TimerWheel, type WheelTimer } from "@dlrm/h2";
import { PredictionService } from "@dlrm/proto";
import type { BodyBudget } from "./body-budget.ts";
import { deadlinePassed } from "./body-deadline.ts";
import { toConnectError } from "./connect-error.ts";
import { FramedMessage } from "./framed-message.ts";
import { isGrpcProto, parseGrpcEncoding, parseGrpcTimeoutMs } from "./grpc-headers.ts";
import { framePredictResponse } from "./predict-response.ts";
import type { Predictor } from "./predictor.ts";
import { ActiveRequest, type RequestActivity } from "./request-activity.ts";
import { ServerError } from "./server-error.ts";

export interface GrpcPredictOptions {
  readonly predictor: Predictor;
  /** Largest request message, bytes, compressed and not. */
  readonly maxMessageBytes: () => number;
  /** Throws if the server takes no requests now. */
  readonly gate: () => void;
  readonly activity: RequestActivity;
  readonly bodies: BodyBudget;
}

/** Takes a stream and returns true, or leaves it to others. */
export type StreamListener = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => boolean;

export const PREDICT_PATH: string = `/${PredictionService.typeName}/${PredictionService.method.predict.name}`;
const CONTENT_TYPE = "application/grpc";
const OK_TRAILERS: OutgoingHttpHeaders = { "grpc-status": "0" };

/**
 * Predict over gRPC, straight from a stream of node:http2: the one method and protocol that carries the load, at a fraction of what
 * Connect's handlers cost, which serve all others. What callers see is the same.
 */
export function createNodePredict(options: GrpcPredictOptions): StreamListener {
  const deadlines: Deadlines = new TimerWheel({ onExpired: (call) => call.bodyIsLate() });
  return (stream, headers) => {
    if (headers[":path"] !== PREDICT_PATH || headers[":method"] !== "POST") return false;
    if (!isGrpcProto(headers["content-type"])) return false;
    new GrpcPredictCall(stream, headers, options, deadlines).start();
    return true;
  };
}

/** Of calls whose message has not come whole. */
type Deadlines = TimerWheel<GrpcPredictCall>;

class GrpcPredictCall {
  readonly #stream: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #options: GrpcPredictOptions;
  readonly #active: ActiveRequest;
  readonly #cancelled = new AbortController();
  readonly #deadlines: Deadlines;
  #bodyTimer: WheelTimer<GrpcPredictCall> | undefined;
  #answered = false;

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    options: GrpcPredictOptions,
    deadlines: Deadlines,
  ) {
    this.#stream = stream;
    this.#headers = headers;
    this.#options = options;
    this.#deadlines = deadlines;
    this.#active = new ActiveRequest(options.activity);
  }

  start(): void {
    const stream = this.#stream;
    const held = this.#options.bodies.hold();
    stream.on("error", ignore);
    stream.once("close", () => {
      this.#active.leave();
      this.#bodyIsDone();
      held.release();
      if (!this.#answered) this.#cancelled.abort(new ServerError("cancelled", "the request was cancelled"));
    });
    try {
      // Counts what it refuses itself.
      this.#options.gate();
    } catch (error) {
      this.#refuse(error);
      return;
    }
    try {
      const encoding = parseGrpcEncoding(this.#headers["grpc-encoding"]);
      const timeoutMs = parseGrpcTimeoutMs(this.#headers["grpc-timeout"]);
      const deadlineAtMs = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
      if (timeoutMs !== undefined) this.#bodyTimer = this.#deadlines.add(this, timeoutMs);
      const message = new FramedMessage(this.#options.maxMessageBytes(), held);
      stream.on("data", (chunk: Buffer) => {
        if (this.#answered) return;
        try {
          message.push(chunk);
        } catch (error) {
          this.#refuse(this.#options.predictor.failed(error));
        }
      });
      stream.once("end", () => {
        this.#bodyIsDone();
        if (!this.#answered) void this.#predict(message, encoding, deadlineAtMs);
      });
    } catch (error) {
      this.#refuse(this.#options.predictor.failed(error));
    }
  }

  /** The deadline has passed, and the message has not come whole. */
  bodyIsLate(): void {
    if (!this.#answered) this.#refuse(this.#options.predictor.failed(deadlinePassed()));
  }

  #bodyIsDone(): void {
    if (this.#bodyTimer !== undefined) this.#deadlines.cancel(this.#bodyTimer);
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
        this.#active,
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
    this.#bodyIsDone();
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
}

function sendOkTrailers(this: ServerHttp2Stream): void {
  this.sendTrailers(OK_TRAILERS);
}

function ignore(): void {}
