/**
 * - `invalid_summary`: a value is not a summary of the supported version; the message lists every problem.
 */
export type ReporterErrorCode = "invalid_summary";

export class ReporterError extends Error {
  override readonly name = "ReporterError";
  readonly code: ReporterErrorCode;
  /** One line a problem: path, what was expected, what came. */
  readonly problems: readonly string[];

  constructor(code: ReporterErrorCode, message: string, problems: readonly string[] = [], options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.problems = problems;
  }
}
