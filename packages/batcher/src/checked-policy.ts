import { BatcherError } from "./batcher-error.ts";
import type { FlushDecision, FlushPolicy, FlushReason, QueueView } from "./flush-policy.ts";
import { reasonOf } from "./reason-of.ts";

const REASONS: readonly FlushReason[] = ["full", "idle", "timeout", "deadline", "drain"];

/**
 * A caller's policy, of which anything may come: what it throws, whichever of its methods, and decisions that make no sense
 * come out of `decide` as a `BatcherError`, with which the batch fails that it was asked about. No batch becomes larger
 * than may be.
 */
export class CheckedPolicy implements FlushPolicy {
  readonly #policy: FlushPolicy;
  readonly #maxBatchSize: number;
  /** What `arrived` or `answered` threw since the last decision: they are called where no batch is at hand that could fail. */
  #fault: { readonly cause: unknown } | undefined;

  constructor(policy: FlushPolicy, maxBatchSize: number) {
    this.#policy = policy;
    this.#maxBatchSize = maxBatchSize;
  }

  decide(view: QueueView): FlushDecision {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) {
      throw threw(fault.cause);
    }
    let decision: FlushDecision;
    try {
      decision = this.#policy.decide(view);
    } catch (cause) {
      throw threw(cause);
    }
    const problem = findProblem(decision);
    if (problem !== undefined) {
      throw new BatcherError("run_failed", problem, { cause: new TypeError(problem) });
    }
    return decision.flush && decision.maxSize > this.#maxBatchSize
      ? { ...decision, maxSize: this.#maxBatchSize }
      : decision;
  }

  arrived(nowMs: number, items: number, size: number): void {
    try {
      this.#policy.arrived(nowMs, items, size);
    } catch (cause) {
      this.#fault ??= { cause };
    }
  }

  answered(nowMs: number, items: number): void {
    try {
      this.#policy.answered(nowMs, items);
    } catch (cause) {
      this.#fault ??= { cause };
    }
  }
}

function threw(cause: unknown): BatcherError {
  return new BatcherError("run_failed", `the policy threw: ${reasonOf(cause)}`, { cause });
}

function findProblem(decision: unknown): string | undefined {
  if (typeof decision !== "object" || decision === null) {
    return `the policy must decide by an object, but gave ${decision === null ? "null" : typeof decision}`;
  }
  const given = decision as Record<string, unknown>;
  if (given["flush"] === true && !REASONS.includes(given["reason"] as FlushReason)) {
    return `the policy must give a reason to flush, one of ${REASONS.join(", ")}, but gave ${String(given["reason"])}`;
  }
  const bounds = given["flush"] === true ? ["maxItems", "maxSize"] : ["untilMs", "untilItems", "untilSize", "runMs"];
  const least = given["flush"] === true ? 1 : -Infinity;
  const wrong = bounds.find((name) => !((given[name] as number) >= least));
  return wrong === undefined
    ? undefined
    : `the policy must give a number${least === 1 ? " from 1" : ""} as ${wrong}, but gave ${String(given[wrong])}`;
}
