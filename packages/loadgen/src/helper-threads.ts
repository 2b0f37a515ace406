import { readdirSync, readFileSync } from "node:fs";
import { constants, setPriority } from "node:os";

const THREADS = "/proc/self/task";
/** What Node calls the threads on which V8 compiles, marks and sweeps beside the program. */
const HELPER_NAME = "V8Worker";

/**
 * Lets V8's helper threads run only when no other thread of this process wants the CPU: with one CPU, what they compile takes
 * slices of some milliseconds from the loop, which then sends late. Returns how many there are; only Linux has priorities of
 * threads, and only a Node that gives its threads names (24 does).
 */
export function deferHelperThreads(): number {
  if (process.platform !== "linux") return 0;
  try {
    const helpers = readdirSync(THREADS).filter((thread) => nameOf(thread) === HELPER_NAME);
    for (const thread of helpers) setPriority(Number(thread), constants.priority.PRIORITY_LOW);
    return helpers.length;
  } catch {
    // A sandbox may forbid it, and it is no more than a wish.
    return 0;
  }
}

function nameOf(thread: string): string {
  return readFileSync(`${THREADS}/${thread}/comm`, "utf8").trim();
}
