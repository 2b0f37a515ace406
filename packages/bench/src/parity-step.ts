import { BenchError, messageOf } from "./bench-error.ts";
import type { ParityOutcome } from "./parity.ts";
import { NoAnswerError, type ParityCheck } from "./parity-check.ts";
import type { RunningArm } from "./running-arm.ts";

export interface ParityStepOptions {
  readonly started: RunningArm;
  readonly parity: ParityCheck;
  readonly bReq: number;
  readonly signal: AbortSignal;
  /** Milliseconds that a server which gave no scores is given to end, if it is about to; default 2,000. */
  readonly endingMs?: number;
}

/** The last processes of a server with several end after the connections of the one that crashed. */
const ENDING_MS = 2000;

/**
 * Compares the scores of a server that runs with the reference's.
 *
 * @throws BenchError `arm_failed` if the server ends or gives no answer, which says nothing of its scores.
 */
export async function checkParity(options: ParityStepOptions): Promise<ParityOutcome> {
  const { started, parity, bReq, signal, endingMs = ENDING_MS } = options;
  const doing = `the parity check at B_req ${bReq}`;
  return await started.during(doing, signal, async (giveUp) => {
    let outcome: ParityOutcome | NoAnswerError;
    try {
      outcome = await started.overConnections((clients) => parity.check(clients, bReq, giveUp));
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      outcome = error;
    }
    // A closed connection, or an error, may be the last that is heard of a server before its end is.
    if (outcome instanceof NoAnswerError || outcome.maxAbsDiff === null) {
      await started.server.endsWithin(endingMs, giveUp);
      giveUp.throwIfAborted();
    }
    if (!(outcome instanceof NoAnswerError)) return outcome;
    const problem = `the server runs, but gave no answer in ${doing}: ${messageOf(outcome)}`;
    throw new BenchError("arm_failed", problem, { cause: outcome });
  });
}
