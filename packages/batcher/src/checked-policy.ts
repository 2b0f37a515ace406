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
    let problem: string | undefined;
    try {
      decision = this.#policy.decide(view);
      problem = findProblem(decision);
    } catch (cause) {
      throw threw(cause);
    }
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

/** With what a batch fails, of what a policy's `decide` threw: a `CheckedPolicy` says it well already. */
export function policyFault(thrown: unknown): BatcherError {
  return thrown instanceof BatcherError ? thrown : threw(thrown);
}

interface Expectation {
  readonly name: string;
  readonly expected: string;
  readonly isRight: (value: unknown) => boolean;
}

const isNumber = (value: unknown): value is number => typeof value === "number" && !Number.isNaN(value);
const isCount = (value: unknown): boolean =>
  isNumber(value) && value >= 1 && (Number.isInteger(value) || value === Infinity);

const TO_FLUSH: readonly Expectation[] = [
  {
    name: "reason",
    expected: `one of ${REASONS.join(", ")}`,
    isRight: (value) => REASONS.includes(value as FlushReason),
  },
  { name: "maxItems", expected: "a whole number from 1, or Infinity,", isRight: isCount },
  { name: "maxSize", expected: "a whole number from 1, or Infinity,", isRight: isCount },
];
const TO_WAIT: readonly Expectation[] = [
  { name: "untilMs", expected: "a number", isRight: isNumber },
  { name: "untilItems", expected: "a number", isRight: isNumber },
  { name: "untilSize", expected: "a number", isRight: isNumber },
  { name: "runMs", expected: "a number below Infinity", isRight: (value) => isNumber(value) && value < Infinity },
];

function findProblem(decision: unknown): string | undefined {
  if (typeof decision !== "object" || decision === null) {
    return `the policy must decide by an object, but gave ${decision === null ? "null" : typeof decision}`;
  }
  const given = decision as Record<string, unknown>;
  const wrong = (given["flush"] === true ? TO_FLUSH : TO_WAIT).find(({ name, isRight }) => !isRight(given[name]));
  return wrong && `the policy must give ${wrong.expected} as ${wrong.name}, but gave ${shown(given[wrong.name])}`;
}

/** Of what cannot be said in a word, its kind. */
function shown(value: unknown): string {
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
