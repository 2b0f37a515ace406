import { readdirSync, readFileSync } from "node:fs";
import { constants, setPriority } from "node:os";

const THREADS = "/proc/self/task";
/** What Node calls the threads on which V8 compiles, marks and sweeps beside the program. */
const HELPER_NAME = "V8Worker";

/**
 * Gives V8's helper threads the lowest priority, so that they hardly run while another thread wants the CPU: with one CPU, what
 * they compile takes slices of some milliseconds from the loop, which then sends late. Returns how many there are; only on Linux
 * is the priority of a thread to be had so, and only in a Node that gives its threads names (24 does).
 */
export function deferHelperThreads(): number {
  if (process.platform !== "linux") return 0;
  let deferred = 0;
  for (const thread of threads()) {
    try {
      if (readFileSync(`${THREADS}/${thread}/comm`, "utf8").trim() !== HELPER_NAME) continue;
      setPriority(Number(thread), constants.priority.PRIORITY_LOW);
      deferred += 1;
    } catch {
      // It has ended meanwhile; or a sandbox forbids it, and it is no more than a wish.
    }
  }
  return deferred;
}

function threads(): readonly string[] {
  try {
    return readdirSync(THREADS);
  } catch {
    return [];
  }
}
