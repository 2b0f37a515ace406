/**
 * What went wrong:
 * - `invalid_options`: an option is missing, of the wrong type or out of range; nothing was started.
 * - `connect_failed`: no connection to the server could be made before the run.
 * - `protocol_error`: the peer broke HTTP/2, HPACK or gRPC framing.
 * - `call_failed`: a call before the run (model metadata) was answered with an error.
 * - `pinning_failed`: a load process does not run on the CPUs it was told to.
 * - `process_failed`: a load process ended or failed before its result.
 * - `aborted`: the run's signal was aborted.
 */
export type LoadErrorCode =
  | "invalid_options"
  | "connect_failed"
  | "protocol_error"
  | "call_failed"
  | "pinning_failed"
  | "process_failed"
  | "aborted";

/** The one error class of this package; match `code`, not the message. */
export class LoadError extends Error {
  override readonly name: string = "LoadError";
  readonly code: LoadErrorCode;

  constructor(code: LoadErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The message of anything that was thrown, with the code Node gives system errors when the message lacks it. */
export function messageOf(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason);
  // An error of several addresses that all failed has an empty message of its own.
  if (reason instanceof AggregateError && reason.message === "") return reason.errors.map(messageOf).join("; ");
  return reason.message;
}
