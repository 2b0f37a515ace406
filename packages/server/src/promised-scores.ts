import { ConnectError } from "@connectrpc/connect";
import type { AbortListener, ScoreSink } from "./score-sink.ts";

/** A sink that settles a promise. */
export class PromisedScores implements ScoreSink {
  readonly deadlineMs: number | undefined;
  readonly #signal: AbortSignal;
  readonly #resolve: (scores: Float32Array<ArrayBuffer>) => void;
  readonly #reject: (error: unknown) => void;

  constructor(
    signal: AbortSignal,
    deadlineMs: number | undefined,
    resolve: (scores: Float32Array<ArrayBuffer>) => void,
    reject: (error: unknown) => void,
  ) {
    this.#signal = signal;
    this.deadlineMs = deadlineMs;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get aborted(): boolean {
    return this.#signal.aborted;
  }

  get reason(): unknown {
    return this.#signal.reason;
  }

  addEventListener(type: "abort", listener: AbortListener): void {
    this.#signal.addEventListener(type, listener);
  }

  removeEventListener(type: "abort", listener: AbortListener): void {
    this.#signal.removeEventListener(type, listener);
  }

  scored(scores: Float32Array, start: number, count: number): void {
    this.#resolve(Float32Array.from(scores.subarray(start, start + count)));
  }

  failed(error: unknown): void {
    // The signal's reason tells a passed deadline from a caller who went away.
    this.#reject(this.aborted && this.reason instanceof ConnectError ? this.reason : error);
  }
}
