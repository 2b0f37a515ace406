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

export class ServerCounters {
  #answeredRequests = 0;
  #answeredExamples = 0;
  readonly #refused = new Map<Code, number>();

  answered(examples: number): void {
    this.#answeredRequests++;
    this.#answeredExamples += examples;
  }

  refused(code: Code): void {
    this.#refused.set(code, (this.#refused.get(code) ?? 0) + 1);
  }

  get stats(): ServerStats {
    const refusedRequests = Object.fromEntries(
      [...this.#refused].map(([code, count]) => [codeNames.get(code) ?? String(code), count]),
    );
    return {
      answeredRequests: this.#answeredRequests,
      answeredExamples: this.#answeredExamples,
      refusedRequests,
    };
  }
}
