import type { ScoreSink } from "./score-sink.ts";

/** Joins the scores of a request's parts, which come in any order, and gives them to the request's own sink. */
export class JoinedParts {
  readonly #sink: ScoreSink;
  readonly #scores: Float32Array<ArrayBuffer>;
  #missing: number;
  #hasFailed = false;
  #onFailure: () => void = () => {};

  constructor(sink: ScoreSink, examples: number) {
    this.#sink = sink;
    this.#scores = new Float32Array(examples);
    this.#missing = examples;
  }

  /** Called once, after the sink has been told, when a part has failed: the other parts are for nobody then. */
  set onFailure(callback: () => void) {
    this.#onFailure = callback;
  }

  /** The sink of the part that begins at example `at`. */
  part(at: number): ScoreSink {
    const sink = this.#sink;
    return {
      get aborted() {
        return sink.aborted;
      },
      get reason() {
        return sink.reason;
      },
      deadlineMs: sink.deadlineMs,
      // The parts are cancelled together, by the request's own signal.
      addEventListener: () => {},
      removeEventListener: () => {},
      scored: (scores, start, count, version) => {
        this.#scores.set(scores.subarray(start, start + count), at);
        this.#missing -= count;
        if (this.#missing === 0 && !this.#hasFailed) sink.scored(this.#scores, 0, this.#scores.length, version);
      },
      failed: (error) => {
        if (this.#hasFailed) return;
        this.#hasFailed = true;
        sink.failed(error);
        this.#onFailure();
      },
    };
  }
}
