import { exampleBytes } from "./limits.ts";
import type { ServerLimits } from "./model-metadata.ts";
import type { ModelPlan } from "./model-plan.ts";
import { ServerError } from "./server-error.ts";

/** How much may wait for a batch: the nearer of a number of examples and a number of bytes. */
export class WaitingLimit {
  /** Most examples that may wait, whichever limit that is for. */
  readonly maxExamples: number;
  readonly #limits: ServerLimits;
  readonly #bytesPerExample: number;

  constructor(limits: ServerLimits, plan: ModelPlan) {
    const { maxEnqueuedExamples, maxEnqueuedBytes } = limits;
    this.#limits = limits;
    this.#bytesPerExample = exampleBytes(plan);
    this.maxExamples = Math.min(maxEnqueuedExamples, Math.floor(maxEnqueuedBytes / this.#bytesPerExample));
  }

  /** What a caller is told for whom there is no room while so many examples wait. */
  overloaded(waitingExamples: number, retryAfterMs: number | undefined, cause?: unknown): ServerError {
    const { maxEnqueuedExamples, maxEnqueuedBytes } = this.#limits;
    const waiting =
      this.maxExamples < maxEnqueuedExamples
        ? `${waitingExamples * this.#bytesPerExample} of at most ${maxEnqueuedBytes} bytes wait (--max-enqueued-bytes)`
        : `${waitingExamples} of at most ${maxEnqueuedExamples} examples wait (--max-enqueued-examples)`;
    return new ServerError("resource_exhausted", `the server is overloaded: ${waiting}`, { cause, retryAfterMs });
  }
}
