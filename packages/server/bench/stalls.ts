import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const CHILD = fileURLToPath(new URL("stall-child.ts", import.meta.url));

/** A time in which a loop that spins on a CPU did not run, milliseconds since it began. */
export interface Stall {
  readonly fromMs: number;
  readonly toMs: number;
}

/** What a CPU that has nothing else to do did not give to a loop that spun there. */
export interface IdleCpu {
  readonly totalMs: number;
  readonly stalls: readonly Stall[];
}

export async function watchIdleCpu(cpu: string, seconds: number): Promise<IdleCpu> {
  const run = promisify(execFile);
  const { stdout } = await run("taskset", ["-c", cpu, process.execPath, "--no-warnings", CHILD, String(seconds)]);
  return { totalMs: seconds * 1000, stalls: JSON.parse(stdout) as Stall[] };
}

/**
 * How long a request waits that comes to an idle CPU at a random moment, milliseconds: the given quantile. 0 where the CPU is
 * there. No server on this CPU can have a better one.
 */
export function idleWaitMs({ totalMs, stalls }: IdleCpu, quantile: number): number {
  // Moments that wait longer than x: of each stall all but its last x.
  const longerMs = (1 - quantile) * totalMs;
  let sumMs = 0;
  let waitMs = 0;
  const lengthsMs = stalls.map(({ fromMs, toMs }) => toMs - fromMs).sort((a, b) => b - a);
  for (const [index, stallMs] of lengthsMs.entries()) {
    if (stallMs <= waitMs) break;
    sumMs += stallMs;
    waitMs = Math.max(0, (sumMs - longerMs) / (index + 1));
  }
  return waitMs;
}

/**
 * The same of a CPU that serves requests: each takes `serviceMs` of it, one after the other, and they come as a Poisson process of
 * this rate. That is a server which never pauses, collects no batches and waits for no device; its tail is what the machine has.
 */
export function queueTailMs(cpu: IdleCpu, ratePerS: number, serviceMs: number, quantile: number): number {
  const timesMs: number[] = [];
  let random = 1;
  let arrivedMs = 0;
  let freeMs = 0;
  let next = 0;
  for (;;) {
    // Numerical Recipes' generator of 32 bits: the same arrivals each time.
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
    arrivedMs -= (Math.log((random + 0.5) / 2 ** 32) / ratePerS) * 1000;
    if (arrivedMs >= cpu.totalMs) break;
    let atMs = Math.max(freeMs, arrivedMs);
    let leftMs = serviceMs;
    for (
      let stall = cpu.stalls[next];
      stall !== undefined && stall.fromMs < atMs + leftMs;
      stall = cpu.stalls[++next]
    ) {
      if (stall.toMs <= atMs) continue;
      leftMs -= Math.max(0, stall.fromMs - atMs);
      atMs = stall.toMs;
    }
    freeMs = atMs + leftMs;
    timesMs.push(freeMs - arrivedMs);
  }
  timesMs.sort((a, b) => a - b);
  return timesMs[Math.min(timesMs.length - 1, Math.floor(timesMs.length * quantile))] ?? 0;
}

/** Time that the host took from this CPU so far, as the kernel counts it, milliseconds. */
export function stolenMs(cpu: string): number {
  const line = new RegExp(`^cpu${cpu} (.+)$`, "mu").exec(readFileSync("/proc/stat", "utf8"));
  const TICK_MS = 10;
  return Number(line?.[1]?.split(" ")[7] ?? 0) * TICK_MS;
}
