/**
 * - `invalid_summary`: a value is not a summary of the supported version; the message lists every problem.
 * - `file_failed`: a file is not there, cannot be read or written, or is no JSON.
 */
export type ReporterErrorCode = "invalid_summary" | "file_failed";

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
