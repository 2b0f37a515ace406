/**
 * - `python_missing`: no CPython of a supported version; the message lists what was tried.
 * - `install_failed`: the virtual environment or a package could not be installed; the message ends with pip's last lines.
 * - `aborted`: the signal of the caller fired.
 */
export type ArmPyErrorCode = "python_missing" | "install_failed" | "aborted";

/** The one error class of this package. */
export class ArmPyError extends Error {
  override readonly name = "ArmPyError";
  readonly code: ArmPyErrorCode;

  constructor(code: ArmPyErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
