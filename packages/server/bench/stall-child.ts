// Spins for argv[2] seconds and prints the times in which it did not run, milliseconds: what this CPU does not give to
// whoever wants it, whatever takes it.
import type { Stall } from "./stalls.ts";

/** Shorter ones are interrupts, which all programs have. */
const LEAST_STALL_MS = 0.05;

const startMs = performance.now();
const endMs = startMs + Number(process.argv[2]) * 1000;
const stalls: Stall[] = [];
for (let lastMs = startMs; lastMs < endMs;) {
  const nowMs = performance.now();
  if (nowMs - lastMs > LEAST_STALL_MS) stalls.push({ fromMs: lastMs - startMs, toMs: nowMs - startMs });
  lastMs = nowMs;
}
console.log(JSON.stringify(stalls));
