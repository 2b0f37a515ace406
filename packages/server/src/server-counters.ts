import { Code } from "@connectrpc/connect";

/** What a server has done since it started. */
export interface ServerStats {
  /** Predict requests answered with scores. */
  readonly answeredRequests: number;
  /** Examples in them. */
  readonly answeredExamples: number;
  /** Requests answered with an error, by gRPC code, as `INVALID_ARGUMENT`. */
  readonly refusedRequests: Readonly<Record<string, number>>;
}

/** gRPC's spelling of Connect's codes. */
const codeNames = new Map<Code, string>(
  Object.entries(Code)
    .filter((entry): entry is [string, Code] => typeof entry[1] === "number")
    .map(([name, code]) => [
      code,
      code === Code.Canceled ? "CANCELLED" : name.replace(/(?<=[a-z])(?=[A-Z])/gu, "_").toUpperCase(),
    ]),
);

const REQUESTS = 0;
const EXAMPLES = 1;
/** gRPC's codes are 1 to 16; those of refusals stand behind the two above. */
const REFUSED = 2;
const CODES = 17;

/** Elements that counters need. */
export const COUNTER_CELLS: number = REFUSED + CODES;

export class ServerCounters {
  readonly #cells: Float64Array;

  /** Counts in `cells`, which others may read; they go on from what stands there. */
  constructor(cells: Float64Array = new Float64Array(COUNTER_CELLS)) {
    this.#cells = cells;
  }

  answered(examples: number): void {
    const cells = this.#cells;
    (cells[REQUESTS] as number) += 1;
    (cells[EXAMPLES] as number) += examples;
  }

  refused(code: Code): void {
    (this.#cells[REFUSED + code] as number) += 1;
  }

  get stats(): ServerStats {
    const cells = this.#cells;
    const refusedRequests: Record<string, number> = {};
    for (const [code, name] of codeNames) {
      const count = cells[REFUSED + code] as number;
      if (count > 0) refusedRequests[name] = count;
    }
    return {
      answeredRequests: cells[REQUESTS] as number,
      answeredExamples: cells[EXAMPLES] as number,
      refusedRequests,
    };
  }
}
