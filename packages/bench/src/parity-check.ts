import type { ModelSpec } from "@dlrm/model";
import { messageOf } from "./bench-error.ts";
import { compareScores, ID_TYPES, parityInput, type ModelInput, type ParityOutcome, predictRequest } from "./parity.ts";
import type { PredictionClient } from "./prediction-client.ts";

/** The reference forward of `@dlrm/model`, or a double of it. */
export interface Reference {
  forward(input: ModelInput, network: "network" | "simulated"): Promise<Float64Array>;
  close(): Promise<void>;
}

/** A server may compile for a shape that it sees for the first time. */
const PREDICT_TIMEOUT_MS = 120_000;

/** Checks servers against a reference whose scores are made once for each request size. */
export class ParityCheck {
  readonly #spec: ModelSpec;
  readonly #reference: Reference;
  readonly #network: "network" | "simulated";
  readonly #seed: number;
  readonly #cases: Map<number, Promise<{ input: ModelInput; scores: Float64Array }>> = new Map();

  constructor(options: { spec: ModelSpec; reference: Reference; simulated: boolean; seed: number }) {
    this.#spec = options.spec;
    this.#reference = options.reference;
    this.#network = options.simulated ? "simulated" : "network";
    this.#seed = options.seed;
  }

  /** Sends the same examples with int32 and with int64 ids; the larger difference counts. */
  async check(client: PredictionClient, bReq: number, signal: AbortSignal): Promise<ParityOutcome> {
    const { input, scores } = await this.#case(bReq);
    let maxAbsDiff = 0;
    for (const idType of ID_TYPES) {
      const request = predictRequest(this.#spec, input, idType);
      let outcome: ParityOutcome;
      try {
        outcome = compareScores(scores, await client.predict(request, signal, PREDICT_TIMEOUT_MS));
      } catch (error) {
        signal.throwIfAborted();
        outcome = { ok: false, maxAbsDiff: null, error: messageOf(error) };
      }
      if (outcome.maxAbsDiff === null) return { ...outcome, error: `${idType} ids: ${outcome.error}` };
      maxAbsDiff = Math.max(maxAbsDiff, outcome.maxAbsDiff);
      if (!outcome.ok) return { ok: false, maxAbsDiff };
    }
    return { ok: true, maxAbsDiff };
  }

  #case(bReq: number): Promise<{ input: ModelInput; scores: Float64Array }> {
    let made = this.#cases.get(bReq);
    if (made === undefined) {
      const input = parityInput(this.#spec, bReq, this.#seed);
      made = this.#reference.forward(input, this.#network).then((scores) => ({ input, scores }));
      this.#cases.set(bReq, made);
    }
    return made;
  }
}
