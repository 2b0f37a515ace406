/**
 * - `usage`: settings that cannot be used; the message lists every problem.
 * - `prepare_failed`: the model or an arm could not be made ready.
 * - `arm_failed`: an arm did not start, ended early, was not pinned or did not answer.
 * - `parity_failed`: an arm answered with scores that are not the reference's.
 * - `load_failed`: the load generator did not give a result.
 * - `dense_network_failed`: the devices could not be compared.
 * - `results_failed`: a file of the results could not be written.
 * - `interrupted`: the run was stopped.
 */
export type BenchErrorCode =
  | "usage"
  | "prepare_failed"
  | "arm_failed"
  | "parity_failed"
  | "load_failed"
  | "dense_network_failed"
  | "results_failed"
  | "interrupted";

export class BenchError extends Error {
  override readonly name = "BenchError";
  readonly code: BenchErrorCode;

  constructor(code: BenchErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** Anything that was thrown, as an error of this class. */
  static from(reason: unknown, code: BenchErrorCode): BenchError {
    if (reason instanceof BenchError) return reason;
    return new BenchError(code, messageOf(reason), { cause: reason });
  }
}

export function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}
