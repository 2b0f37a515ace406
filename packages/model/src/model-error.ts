/**
 * - `invalid_spec`: a model spec is not valid; the message lists every problem.
 * - `invalid_option`: another argument of the caller is not valid.
 * - `invalid_input`: an input of the reference forward has the wrong length or an id outside its table.
 * - `invalid_safetensors`: a file is not valid safetensors, or holds what this package does not read.
 * - `invalid_bundle`: a directory is not a bundle: a file is missing, truncated or malformed.
 * - `corrupt_bundle`: the bundle's content is not what its hashes say.
 * - `bundle_exists`: the target of an export exists already and is left as it is.
 * - `no_space`: the file system of the target lacks the room for the bundle.
 */
export type ModelErrorCode =
  | "invalid_spec"
  | "invalid_option"
  | "invalid_input"
  | "invalid_safetensors"
  | "invalid_bundle"
  | "corrupt_bundle"
  | "bundle_exists"
  | "no_space";

/** The one error class of this package: match on `code`, show `message`. */
export class ModelError extends Error {
  override readonly name = "ModelError";
  readonly code: ModelErrorCode;

  constructor(code: ModelErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
