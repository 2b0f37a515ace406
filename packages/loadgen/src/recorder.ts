import { GrpcStatus, grpcStatusName } from "./grpc-status.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import { LiveLatency } from "./live-latency.ts";
import { MAX_REQUEST_EXAMPLES } from "./request-size.ts";

/** The measured window [fromMicros, toMicros) of the monotonic clock, the same in all processes of a run. */
export interface MeasuredWindow {
  readonly fromMicros: number;
  readonly toMicros: number;
}

/** What one load process measured; histograms are encoded. */
export interface ShareResult {
  /** Answers with status OK that came inside the window. */
  completed: number;
  /** Examples of those. */
  completedExamples: number;
  /** Requests whose intended send time lies in the window, those dropped included. */
  intended: number;
  latency: string;
  latencyFromSend: string;
  sendLag: string;
  errors: Record<string, number>;
  errorSample: string | undefined;
  dropped: number;
  late: number;
  /** Requests of the window without an answer when the drain time was over (also in `errors`). */
  unanswered: number;
}

/**
 * Takes down what happens to requests.
 *
 * A request belongs to the window iff its intended send time does, whenever it is answered; then it counts exactly once:
 * as a latency (OK), as an error, or as dropped. Throughput counts otherwise: answers that come inside the window,
 * whenever their requests were sent. In a closed loop the intended time is the time of sending.
 */
export class Recorder {
  readonly window: MeasuredWindow;
  readonly #lateAfterMicros: number;
  readonly #latency: LatencyHistogram = LatencyHistogram.create();
  readonly #latencyFromSend: LatencyHistogram | undefined;
  readonly #sendLag: LatencyHistogram = LatencyHistogram.create();
  readonly #errors = new Map<string, number>();
  #errorSample: string | undefined;
  #completed = 0;
  #completedExamples = 0;
  #intended = 0;
  #dropped = 0;
  #late = 0;
  #unanswered = 0;
  /** Length of the first OK answer by its examples; 0 for none. */
  readonly #bytesOf: Int32Array = new Int32Array(MAX_REQUEST_EXAMPLES + 1);
  /** Requests of the window that are outstanding. */
  outstanding = 0;

  readonly live: LiveLatency = new LiveLatency();
  /** Answers since the start, warm-up included: those OK, and the others. */
  answersOk = 0;
  answersFailed = 0;

  constructor(window: MeasuredWindow, options: { readonly open: boolean; readonly lateAfterMicros: number }) {
    this.window = window;
    this.#lateAfterMicros = options.lateAfterMicros;
    // In a closed loop the two latencies are the same.
    this.#latencyFromSend = options.open ? LatencyHistogram.create() : undefined;
  }

  #measures(intendedMicros: number): boolean {
    return intendedMicros >= this.window.fromMicros && intendedMicros < this.window.toMicros;
  }

  sent(intendedMicros: number, sentMicros: number): void {
    if (!this.#measures(intendedMicros)) return;
    this.#intended++;
    this.outstanding++;
    if (this.#latencyFromSend === undefined) return;
    const lagMicros = sentMicros - intendedMicros;
    this.#sendLag.record(lagMicros);
    if (lagMicros > this.#lateAfterMicros) this.#late++;
  }

  /** A send that was due but not made, because too many requests were outstanding. */
  droppedAt(intendedMicros: number): void {
    if (!this.#measures(intendedMicros)) return;
    this.#intended++;
    this.#dropped++;
  }

  /**
   * @param examples of the request.
   * @param bodyBytes of the answer.
   */
  answered(
    intendedMicros: number,
    sentMicros: number,
    nowMicros: number,
    status: number,
    detail: string,
    examples: number,
    bodyBytes: number,
  ): void {
    const ok =
      status === GrpcStatus.ok && (this.#bytesOf[examples] === bodyBytes || this.#isFirst(examples, bodyBytes));
    if (ok) {
      this.answersOk++;
      this.live.record(nowMicros - intendedMicros);
      if (nowMicros >= this.window.fromMicros && nowMicros < this.window.toMicros) {
        this.#completed++;
        this.#completedExamples += examples;
      }
    } else {
      this.answersFailed++;
    }
    if (!this.#measures(intendedMicros)) return;
    this.outstanding--;
    if (ok) {
      this.#latency.record(nowMicros - intendedMicros);
      this.#latencyFromSend?.record(nowMicros - sentMicros);
    } else if (status === GrpcStatus.ok) {
      const expected = `the first had ${this.#bytesOf[examples]}`;
      this.#error("WRONG_LENGTH", `an answer of ${bodyBytes} bytes to ${examples} examples, ${expected}`);
    } else {
      this.#error(grpcStatusName(status), detail);
    }
  }

  /** Answers to as many examples are as long as each other: one that isn't has not the scores. */
  #isFirst(examples: number, bodyBytes: number): boolean {
    if (this.#bytesOf[examples] !== 0) return false;
    this.#bytesOf[examples] = bodyBytes;
    return true;
  }

  /** Ends the wait: requests of the window that are still outstanding are errors. */
  giveUp(): void {
    for (; this.outstanding > 0; this.outstanding--) {
      this.#unanswered++;
      this.#error("DEADLINE_EXCEEDED", "no answer when the time to wait after the run was over");
    }
  }

  #error(name: string, detail: string): void {
    this.#errors.set(name, (this.#errors.get(name) ?? 0) + 1);
    this.#errorSample ??= detail === "" ? name : `${name}: ${detail}`;
  }

  result(): ShareResult {
    const latency = this.#latency.encode();
    return {
      completed: this.#completed,
      completedExamples: this.#completedExamples,
      intended: this.#intended,
      latency,
      latencyFromSend: this.#latencyFromSend?.encode() ?? latency,
      sendLag: this.#sendLag.encode(),
      errors: Object.fromEntries(this.#errors),
      errorSample: this.#errorSample,
      dropped: this.#dropped,
      late: this.#late,
      unanswered: this.#unanswered,
    };
  }
}
