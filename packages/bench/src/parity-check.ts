import type { ModelSpec } from "@dlrm/model";
import { messageOf } from "./bench-error.ts";
import {
  compareScores,
  examplesOf,
  ID_TYPES,
  type IdType,
  type ModelInput,
  parityInput,
  type ParityOutcome,
  predictRequest,
} from "./parity.ts";
import { isAnswer, type PredictionClient } from "./prediction-client.ts";

/** A request had no answer: the connection was closed or refused, or the time was over. Says nothing of a server's scores. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/** The reference forward of `@dlrm/model`, or a double of it. */
export interface Reference {
  forward(input: ModelInput, network: "network" | "simulated"): Promise<Float64Array>;
  close(): Promise<void>;
}

interface ParityCase {
  readonly input: ModelInput;
  /** Of the reference. */
  readonly scores: Float64Array;
}

/** A server may compile for a shape that it sees for the first time. */
const PREDICT_TIMEOUT_MS = 120_000;

/** Requests of one example each, all different, that are sent at the same time as those of the size that is checked. */
const NEIGHBOURS = 16;

/** Examples that the reference scores before it is asked whether to go on: it takes up to 30 ms for each. */
const EXAMPLES_AT_ONCE = 64;

/** Checks servers against a reference whose scores are made once for each request size. */
export class ParityCheck {
  readonly #spec: ModelSpec;
  readonly #reference: Reference;
  readonly #network: "network" | "simulated";
  readonly #seed: number;
  readonly #cases: Map<string, ParityCase> = new Map();

  constructor(options: { spec: ModelSpec; reference: Reference; simulated: boolean; seed: number }) {
    this.#spec = options.spec;
    this.#reference = options.reference;
    this.#network = options.simulated ? "simulated" : "network";
    this.#seed = options.seed;
  }

  /**
   * Sends the same examples with int32 and with int64 ids, one request after the other; then both at once among others, so that a
   * server that batches must give each its own scores. The largest difference counts.
   *
   * @param clients what is sent at once goes over all of them.
   * @throws NoAnswerError if a request had none; the reason of `signal`.
   */
  async check(
    clients: readonly [PredictionClient, ...PredictionClient[]],
    bReq: number,
    signal: AbortSignal,
  ): Promise<ParityOutcome> {
    const asked = await this.#case(bReq, this.#seed, signal);
    let maxAbsDiff = 0;
    for (const idType of ID_TYPES) {
      const outcome = await this.#ask(clients[0], asked, idType, signal);
      if (!outcome.ok) return outcome;
      maxAbsDiff = Math.max(maxAbsDiff, outcome.maxAbsDiff);
    }
    const together = [...ID_TYPES.map(() => asked), ...(await this.#neighbours(signal))].map((item, index) => {
      const idType = ID_TYPES[index % ID_TYPES.length] as IdType;
      // Pairs, since with an even number of clients each would else have one type of ids.
      const client = clients[(index >> 1) % clients.length] as PredictionClient;
      return this.#ask(client, item, idType, signal);
    });
    const among = `among ${together.length} requests at once`;
    const outcomes = await Promise.all(together).catch((error: unknown): never => {
      throw error instanceof NoAnswerError ? new NoAnswerError(`${among}: ${error.message}`, { cause: error }) : error;
    });
    for (const outcome of outcomes) {
      if (!outcome.ok) return { ...outcome, error: `${among}: ${whatIsWrong(outcome)}` };
      maxAbsDiff = Math.max(maxAbsDiff, outcome.maxAbsDiff);
    }
    return { ok: true, maxAbsDiff };
  }

  async #ask(
    client: PredictionClient,
    { input, scores }: ParityCase,
    idType: IdType,
    signal: AbortSignal,
  ): Promise<ParityOutcome> {
    const request = predictRequest(this.#spec, input, idType);
    let outcome: ParityOutcome;
    try {
      outcome = compareScores(scores, await client.predict(request, signal, PREDICT_TIMEOUT_MS));
    } catch (error) {
      signal.throwIfAborted();
      if (!isAnswer(error)) throw new NoAnswerError(`${idType} ids: ${messageOf(error)}`, { cause: error });
      outcome = { ok: false, maxAbsDiff: null, error: messageOf(error) };
    }
    return outcome.maxAbsDiff === null ? { ...outcome, error: `${idType} ids: ${outcome.error}` } : outcome;
  }

  async #neighbours(signal: AbortSignal): Promise<readonly ParityCase[]> {
    // Of other examples than a request of that size has.
    const { input, scores } = await this.#case(NEIGHBOURS, this.#seed + 1, signal);
    return Array.from(scores, (score, index) => ({
      input: examplesOf(this.#spec, input, index, index + 1),
      scores: Float64Array.of(score),
    }));
  }

  async #case(batch: number, seed: number, signal: AbortSignal): Promise<ParityCase> {
    const key = `${batch} ${seed}`;
    const known = this.#cases.get(key);
    if (known !== undefined) return known;
    const input = parityInput(this.#spec, batch, seed);
    const scores = new Float64Array(batch);
    for (let from = 0; from < batch; from += EXAMPLES_AT_ONCE) {
      signal.throwIfAborted();
      const part = examplesOf(this.#spec, input, from, Math.min(batch, from + EXAMPLES_AT_ONCE));
      scores.set(await this.#reference.forward(part, this.#network), from);
    }
    signal.throwIfAborted();
    const made = { input, scores };
    this.#cases.set(key, made);
    return made;
  }
}

/** What kind of thing is wrong with an outcome that is not ok: scores that differ, or an answer without scores to compare. */
export function describeDifference({ maxAbsDiff }: ParityOutcome): string {
  return maxAbsDiff === null ? "the scores cannot be compared" : "scores are not the reference's";
}

/** Of an outcome that is not ok, in words. */
export function whatIsWrong({ maxAbsDiff, error }: ParityOutcome): string {
  if (error !== undefined) return error;
  return `largest difference ${maxAbsDiff?.toExponential(2) ?? "unknown"}, expected at most 1e-4`;
}
