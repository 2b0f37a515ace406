import { type Http2Stream, type StreamHandler, TimerWheel, type WheelTimer } from "@dlrm/h2";
import type { HeldBody } from "./body-budget.ts";
import { deadlinePassed } from "./body-deadline.ts";
import { toConnectError } from "./connect-error.ts";
import { FRAME_HEADER_BYTES, FramedMessage, messageTooLarge } from "./framed-message.ts";
import { GRPC_HEAD, GRPC_OK_TRAILERS, grpcErrorBlock } from "./grpc-blocks.ts";
import { type GrpcEncoding, isGrpcProto, parseGrpcEncoding, parseGrpcTimeoutMs } from "./grpc-headers.ts";
import { type GrpcPredictOptions, PREDICT_PATH } from "./node-predict.ts";
import { PredictResponses } from "./predict-response.ts";
import { ActiveRequest } from "./request-activity.ts";
import type { AbortListener, ScoreSink } from "./score-sink.ts";
import { ServerError } from "./server-error.ts";

/** What a request's headers mean; kept with the header block, as callers send the same one again and again. */
interface Route {
  /** False for the requests of others. */
  readonly isPredict: boolean;
  readonly encoding: GrpcEncoding;
  readonly timeoutMs: number | undefined;
  /** What is wrong with the headers. */
  readonly problem: unknown;
}

const OTHERS: Route = { isPredict: false, encoding: "identity", timeoutMs: undefined, problem: undefined };

/**
 * Predict over gRPC, straight from a stream of `@dlrm/h2`: no object of Node's, no promise and no timer a call, and the
 * answer is written in place. What callers see is what `node-predict.ts` gives.
 */
export function createH2Predict(options: GrpcPredictOptions): (stream: Http2Stream) => StreamHandler | undefined {
  const handler = new PredictHandler(options);
  return (stream) => handler.take(stream);
}

/** The one handler of all calls; a stream's `context` is its `Call`. */
class PredictHandler implements StreamHandler {
  readonly body = "whole";
  /** A message is read before `onLentBody` returns, or copied. */
  readonly borrowsBody = true;
  readonly options: GrpcPredictOptions;
  readonly responses: PredictResponses = new PredictResponses();
  /** Calls whose message has not come whole, and that have a deadline. */
  readonly deadlines: TimerWheel<Call> = new TimerWheel<Call>({
    onExpired: (call) => call.refuseAndCount(deadlinePassed()),
  });

  constructor(options: GrpcPredictOptions) {
    this.options = options;
  }

  get maxBodyBytes(): number {
    return FRAME_HEADER_BYTES + this.options.maxMessageBytes();
  }

  take(stream: Http2Stream): StreamHandler | undefined {
    const route = routeOf(stream);
    if (!route.isPredict) return undefined;
    const call = new Call(this, stream, route);
    stream.context = call;
    try {
      // Counts what it refuses itself.
      this.options.gate();
    } catch (error) {
      call.refuse(error);
      return this;
    }
    if (route.problem !== undefined) {
      call.refuseAndCount(route.problem);
      return this;
    }
    if (route.timeoutMs !== undefined) {
      call.deadlineAtMs = performance.now() + route.timeoutMs;
      call.bodyTimer = this.deadlines.add(call, route.timeoutMs);
    }
    return this;
  }

  expectedBytes(stream: Http2Stream, first: Buffer): number | undefined {
    if (first.length < FRAME_HEADER_BYTES) return undefined;
    const messageBytes = first.readUInt32BE(1);
    const maxMessageBytes = this.options.maxMessageBytes();
    if (messageBytes <= maxMessageBytes) return FRAME_HEADER_BYTES + messageBytes;
    const call = stream.context as Call;
    // Not now: the stream is in the middle of its body.
    queueMicrotask(() => call.refuseAndCount(messageTooLarge(`${messageBytes} bytes`, maxMessageBytes)));
    return 0;
  }

  onBodyTooLarge(stream: Http2Stream, atLeastBytes: number): void {
    const got = `${atLeastBytes - FRAME_HEADER_BYTES} bytes${stream.remoteEnding ? "" : " and more"}`;
    (stream.context as Call).refuseAndCount(messageTooLarge(got, this.options.maxMessageBytes()));
  }

  onLentBody(stream: Http2Stream, bytes: Buffer, start: number, end: number): void {
    const call = stream.context as Call;
    if (call.isOver) return;
    if (call.bodyTimer !== undefined) this.deadlines.cancel(call.bodyTimer);
    // The usual message: whole, and not compressed.
    const message = start + FRAME_HEADER_BYTES;
    if (message <= end && bytes[start] === 0 && bytes.readUInt32BE(start + 1) === end - message)
      call.score(bytes, message, end);
    else this.#unusual(call, bytes.subarray(start, end));
  }

  onReset(stream: Http2Stream): void {
    (stream.context as Call).cancel();
  }

  #unusual(call: Call, body: Buffer): void {
    const { maxMessageBytes, bodies } = this.options;
    call.held = bodies.hold();
    try {
      const message = new FramedMessage(maxMessageBytes(), call.held);
      if (body.length > 0) message.push(Buffer.from(body));
      const finished = message.finish(call.route.encoding);
      if (finished instanceof Uint8Array) {
        call.score(finished, 0, finished.length);
        return;
      }
      finished.then(
        (bytes) => {
          if (!call.isOver) call.score(bytes, 0, bytes.length);
        },
        (error: unknown) => call.refuseAndCount(error),
      );
    } catch (error) {
      call.refuseAndCount(error);
    }
  }
}

/** One call. It is over when it has been answered, refused or cancelled, and then does nothing more. */
class Call extends ActiveRequest implements ScoreSink {
  readonly route: Route;
  /** On `performance.now()`'s clock. */
  deadlineAtMs: number | undefined = undefined;
  bodyTimer: WheelTimer<Call> | undefined = undefined;
  /** What a copy of the message, or what it is decompressed to, takes. */
  held: HeldBody | undefined = undefined;
  isOver = false;
  // What the batcher asks of an AbortSignal.
  aborted = false;
  reason: unknown = undefined;
  readonly #handler: PredictHandler;
  readonly #stream: Http2Stream;
  #onAbort: AbortListener | undefined = undefined;

  constructor(handler: PredictHandler, stream: Http2Stream, route: Route) {
    super(handler.options.activity);
    this.#handler = handler;
    this.#stream = stream;
    this.route = route;
  }

  get deadlineMs(): number | undefined {
    return this.deadlineAtMs === undefined ? undefined : this.deadlineAtMs - performance.now();
  }

  /** Reads the message before it returns. */
  score(bytes: Uint8Array, start: number, end: number): void {
    this.scoringStarted();
    this.#handler.options.predictor.score(bytes, start, end, this);
    this.held?.release();
  }

  scored(scores: Float32Array, start: number, count: number, version: string): void {
    this.scoringEnded();
    this.#handler.options.predictor.scored(count);
    if (this.isOver) return;
    this.#stream.respond(GRPC_HEAD, this.#handler.responses.fill(scores, start, count, version), GRPC_OK_TRAILERS);
    this.#end();
  }

  /** What was scored counts, even if its caller is not there to be told. */
  failed(error: unknown): void {
    this.scoringEnded();
    this.refuse(this.#handler.options.predictor.failed(error));
  }

  /** For what is found out of one call more than once, perhaps when it is over. */
  refuseAndCount(error: unknown): void {
    if (!this.isOver) this.refuse(this.#handler.options.predictor.failed(error));
  }

  refuse(error: unknown): void {
    if (this.isOver) return;
    this.#stream.respond(grpcErrorBlock(toConnectError(error)));
    this.#end();
  }

  /** The caller went away. */
  cancel(): void {
    if (this.isOver) return;
    this.aborted = true;
    this.reason = new ServerError("cancelled", "the request was cancelled");
    this.#end();
    const onAbort = this.#onAbort;
    if (typeof onAbort === "function") onAbort();
    else onAbort?.handleEvent();
  }

  addEventListener(_type: "abort", listener: AbortListener): void {
    this.#onAbort = listener;
  }

  removeEventListener(): void {
    this.#onAbort = undefined;
  }

  #end(): void {
    this.isOver = true;
    const { deadlines } = this.#handler;
    if (this.bodyTimer?.isPending === true) deadlines.cancel(this.bodyTimer);
    this.held?.release();
    this.leave();
  }
}

function routeOf(stream: Http2Stream): Route {
  const { headers } = stream;
  if (headers === undefined) return OTHERS;
  headers.derived ??= deriveRoute(
    headers.get(":path"),
    headers.get(":method"),
    headers.get("content-type"),
    headers.get("grpc-encoding"),
    headers.get("grpc-timeout"),
  );
  return headers.derived as Route;
}

function deriveRoute(
  path: string | undefined,
  method: string | undefined,
  contentType: string | undefined,
  encoding: string | undefined,
  timeout: string | undefined,
): Route {
  if (path !== PREDICT_PATH || method !== "POST" || !isGrpcProto(contentType)) return OTHERS;
  try {
    return {
      isPredict: true,
      encoding: parseGrpcEncoding(encoding),
      timeoutMs: parseGrpcTimeoutMs(timeout),
      problem: undefined,
    };
  } catch (problem) {
    return { isPredict: true, encoding: "identity", timeoutMs: undefined, problem };
  }
}
