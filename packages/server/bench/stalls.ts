import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const CHILD = fileURLToPath(new URL("stall-child.ts", import.meta.url));

/**
 * How long a request waits that comes to an idle CPU at a random moment, milliseconds: the given quantile, from a loop that
 * spins there. No server on this CPU can have a better one.
 */
export async function idleWaitMs(cpu: string, quantile: number, seconds: number): Promise<number> {
  const run = promisify(execFile);
  const { stdout } = await run("taskset", ["-c", cpu, process.execPath, "--no-warnings", CHILD, String(seconds)]);
  return waitQuantileMs(JSON.parse(stdout) as number[], seconds * 1000, quantile);
}

/** Of waits for the end of a stall, over all moments of `totalMs`; 0 where the CPU is there. */
function waitQuantileMs(stallsMs: readonly number[], totalMs: number, quantile: number): number {
  // Moments that wait longer than x: of each stall all but its last x.
  const longerMs = (1 - quantile) * totalMs;
  let sumMs = 0;
  let waitMs = 0;
  for (const [index, stallMs] of stallsMs.toSorted((a, b) => b - a).entries()) {
    if (stallMs <= waitMs) break;
    sumMs += stallMs;
    waitMs = Math.max(0, (sumMs - longerMs) / (index + 1));
  }
  return waitMs;
}

/** Time that the host took from this CPU so far, as the kernel counts it, milliseconds. */
export function stolenMs(cpu: string): number {
  const line = new RegExp(`^cpu${cpu} (.+)$`, "mu").exec(readFileSync("/proc/stat", "utf8"));
  const TICK_MS = 10;
  return Number(line?.[1]?.split(" ")[7] ?? 0) * TICK_MS;
}
