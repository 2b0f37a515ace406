/** What is asked of an `AbortSignal`: anything with these does. */
export interface CancelSignal {
  readonly aborted: boolean;
  readonly reason?: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** What a caller may say about an item. */
export interface SubmitOptions {
  /** Takes the item out when aborted: it is not run, if it was still waiting, and rejects with `cancelled`. */
  readonly signal?: CancelSignal | undefined;
  /** Rejects with `deadline_exceeded` when there is no result after this many milliseconds from now. */
  readonly deadlineMs?: number | undefined;
  /** A whole number from 0, the default, to 9. The higher goes first. */
  readonly priority?: number | undefined;
}
