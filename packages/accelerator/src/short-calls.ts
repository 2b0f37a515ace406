import { availableParallelism } from "node:os";

// Waking a thread that sleeps takes tens of microseconds, which only calls of the same length notice: after one of those both sides
// look for a while before they sleep. All others sleep at once and leave the CPU to whoever needs it.

const SHORT_CALL_MS = 0.1;

/** The longest that either side looks for what comes next, milliseconds. */
export const SPIN_MS = 0.05;

// On a single CPU, looking keeps from running what is looked for.
const HAS_OTHER_CPU = availableParallelism() > 1;

/** Whether to look before sleeping, after a call that took so long. */
export function spinsAfter(callMs: number): boolean {
  return HAS_OTHER_CPU && callMs < SHORT_CALL_MS;
}
