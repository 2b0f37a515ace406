import { BenchError, type BenchErrorCode } from "./bench-error.ts";

export interface TimeLimit {
  readonly limitS: number;
  /** Ends the work, too. */
  readonly signal: AbortSignal;
  /** Subject of the sentence that says that it took too long. */
  readonly name: string;
  readonly failure: BenchErrorCode;
}

/** Settles as `work` does, whose signal is aborted when its time is over. */
export async function withinLimit<Result>(
  { limitS, signal, name, failure }: TimeLimit,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const overdue = new AbortController();
  const timer = setTimeout(
    () => overdue.abort(new BenchError(failure, `${name} gave no result within ${limitS} s`)),
    limitS * 1000,
  );
  try {
    return await work(AbortSignal.any([signal, overdue.signal]));
  } finally {
    clearTimeout(timer);
  }
}
