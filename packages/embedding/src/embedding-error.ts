/**
 * What went wrong, for programs:
 *
 * - `invalid_file`: a table file is truncated, corrupt or not of the announced format.
 * - `invalid_table`: a table has a shape or dtype that cannot be served.
 * - `unknown_table`: a plan or an update names a table the store does not have.
 * - `invalid_argument`: an option or argument of a call is out of its range.
 * - `out_of_vocabulary`: an id has no row in its table, and the table's policy is `error`.
 * - `kernel_unavailable`: the kernel asked for cannot run on this machine; `cause` says why.
 * - `unsupported`: the chosen kernel cannot do this.
 * - `aborted`: the `signal` given to `openEmbeddingStore` was aborted.
 * - `closed`: the store was closed.
 * - `interrupted_update`: a thread was terminated inside `update` or `gather` of a kernel that replaces rows in place.
 * - `io`: the operating system refused a read; `cause` is its error.
 */
export type EmbeddingErrorCode =
  | "invalid_file"
  | "invalid_table"
  | "unknown_table"
  | "invalid_argument"
  | "out_of_vocabulary"
  | "kernel_unavailable"
  | "unsupported"
  | "aborted"
  | "closed"
  | "interrupted_update"
  | "io";

/** The one error class of this package; match on `code`. */
export class EmbeddingError extends Error {
  override readonly name = "EmbeddingError";
  readonly code: EmbeddingErrorCode;
  /** Where the id stands, when `code` is `out_of_vocabulary`. */
  readonly outOfVocabulary: OutOfVocabularyId | undefined;

  constructor(
    code: EmbeddingErrorCode,
    message: string,
    options?: { cause?: unknown; outOfVocabulary?: OutOfVocabularyId },
  ) {
    super(message, options && "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.outOfVocabulary = options?.outOfVocabulary;
  }

  /** Anything thrown, as an `EmbeddingError`: itself, or wrapped with `code` and what was being done. */
  static from(reason: unknown, code: EmbeddingErrorCode, doing: string): EmbeddingError {
    if (reason instanceof EmbeddingError) return reason;
    const detail = reason instanceof Error ? reason.message : String(reason);
    return new EmbeddingError(code, `${doing}: ${detail}`, { cause: reason });
  }
}

/** An id that has no row in its table. */
export interface OutOfVocabularyId {
  /** Index of the feature in the plan. */
  readonly feature: number;
  /** Index of the example in the call. */
  readonly example: number;
  /** Position in the feature's bag. */
  readonly position: number;
  readonly id: number;
}
