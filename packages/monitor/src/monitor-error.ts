/**
 * - `invalid_options`: an option is missing, of the wrong type or out of range.
 * - `not_available`: this system does not tell what the monitor reads (it needs Linux's /proc).
 * - `no_process`: a process to be watched does not exist.
 */
export type MonitorErrorCode = "invalid_options" | "not_available" | "no_process";

/** The one error class of this package; match `code`, not the message. */
export class MonitorError extends Error {
  override readonly name: string = "MonitorError";
  readonly code: MonitorErrorCode;

  constructor(code: MonitorErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
