/**
 * What went wrong, for a program to match:
 *
 * | code | meaning | try again? |
 * | --- | --- | --- |
 * | `invalid_spec` | the spec given to `openDevice` can't be right, whatever the machine | no |
 * | `not_installed` | the runtime of this kind of device is not installed, or can't be loaded here | after installing |
 * | `plugin_not_found` | no PJRT plugin at `pluginPath` | no |
 * | `plugin_invalid` | the file is no PJRT plugin that can be loaded, or one of an API version that is not supported | no |
 * | `provider_unavailable` | the runtime is here, but not the execution provider that was asked for, or no device | no |
 * | `model_not_found` | no readable file at `modelPath` | no |
 * | `model_invalid` | the file is no model that the runtime can load | no |
 * | `model_mismatch` | the model's inputs or outputs differ from the spec's | no |
 * | `open_failed` | the device could not be opened for another reason; see `cause` | perhaps |
 * | `unknown_bucket` | `execute` got a batch size that is no bucket of the device | no |
 * | `shape_mismatch` | `execute` got a missing, unknown, too short or unshared tensor | no |
 * | `queue_full` | as many calls wait as the device takes | yes, later |
 * | `cancelled` | the signal of the call was aborted before the device began it | – |
 * | `out_of_memory` | the device has no memory left, for opening or for a call | perhaps |
 * | `run_failed` | the runtime refused or failed this call; the device goes on | no |
 * | `device_lost` | the device's thread ended; open a new device, or wait if it has `reopen` | yes, later |
 * | `device_wedged` | no call ended for `callTimeoutMs`; the device was given up | yes, likewise |
 * | `closed` | the device is closed, or closing | no |
 */
export type AcceleratorErrorCode =
  | "invalid_spec"
  | "not_installed"
  | "plugin_not_found"
  | "plugin_invalid"
  | "provider_unavailable"
  | "model_not_found"
  | "model_invalid"
  | "model_mismatch"
  | "open_failed"
  | "unknown_bucket"
  | "shape_mismatch"
  | "queue_full"
  | "cancelled"
  | "out_of_memory"
  | "run_failed"
  | "device_lost"
  | "device_wedged"
  | "closed";

/** The only error this package throws or rejects with. Match `code`; the message is for people. */
export class AcceleratorError extends Error {
  override readonly name = "AcceleratorError";
  readonly code: AcceleratorErrorCode;

  constructor(code: AcceleratorErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /** `reason` itself if it is ours, else an error of `code` whose message is `what` and the reason's, and whose cause it is. */
  static from(reason: unknown, code: AcceleratorErrorCode, what: string): AcceleratorError {
    if (reason instanceof AcceleratorError) return reason;
    const detail = reason instanceof Error ? reason.message : String(reason);
    return new AcceleratorError(code, `${what}: ${detail}`, { cause: reason });
  }
}

/** An error as it crosses a thread: structured cloning keeps neither a class of ours nor its code. */
export interface ErrorRecord {
  readonly code: AcceleratorErrorCode;
  readonly message: string;
  readonly cause: { readonly name: string; readonly message: string; readonly stack?: string } | undefined;
}

export function toErrorRecord(error: AcceleratorError): ErrorRecord {
  const { code, message, cause } = error;
  if (!(cause instanceof Error)) return { code, message, cause: undefined };
  const { name, message: detail, stack } = cause;
  return { code, message, cause: stack === undefined ? { name, message: detail } : { name, message: detail, stack } };
}

export function fromErrorRecord(record: ErrorRecord): AcceleratorError {
  if (record.cause === undefined) return new AcceleratorError(record.code, record.message);
  const cause = Object.assign(new Error(record.cause.message), { name: record.cause.name });
  if (record.cause.stack !== undefined) cause.stack = record.cause.stack;
  return new AcceleratorError(record.code, record.message, { cause });
}
