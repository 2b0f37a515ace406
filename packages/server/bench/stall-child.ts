// Spins for argv[2] seconds and prints the times in which it did not run, milliseconds: what this CPU does not give to
// whoever wants it, whatever takes it.

/** Shorter ones are interrupts, which all programs have. */
const LEAST_STALL_MS = 0.05;

const endMs = performance.now() + Number(process.argv[2]) * 1000;
const stallsMs: number[] = [];
for (let lastMs = performance.now(); lastMs < endMs;) {
  const nowMs = performance.now();
  if (nowMs - lastMs > LEAST_STALL_MS) stallsMs.push(nowMs - lastMs);
  lastMs = nowMs;
}
console.log(JSON.stringify(stallsMs));
