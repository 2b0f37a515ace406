import { PerformanceObserver } from "node:perf_hooks";

// Imported into a server under measurement: on SIGUSR2 it writes the pauses of the main thread's garbage collections since
// the last time, milliseconds, as one line to stderr.

let pausesMs: number[] = [];

new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) pausesMs.push(duration);
}).observe({ entryTypes: ["gc"] });

process.on("SIGUSR2", () => {
  process.stderr.write(`GC ${JSON.stringify(pausesMs)}\n`);
  pausesMs = [];
});
