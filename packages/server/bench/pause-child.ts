import { PerformanceObserver } from "node:perf_hooks";

// Imported into a server under measurement: on SIGUSR2 it writes how long the garbage collector has stopped the main thread each time
// since the last, milliseconds, as one line to stderr. `GCProfiler` would tell of the heap, too; but it keeps a text of some kilobytes
// for each collection, and when that is to grow beyond some megabytes, the thread stands still for tens of milliseconds.

let pausesMs: number[] = [];

const observer = new PerformanceObserver((list) => note(list.getEntries()));
observer.observe({ entryTypes: ["gc"] });

function note(entries: readonly { readonly duration: number }[]): void {
  for (const { duration } of entries) pausesMs.push(duration);
}

process.on("SIGUSR2", () => {
  note(observer.takeRecords());
  process.stderr.write(`PAUSES ${JSON.stringify(pausesMs)}\n`);
  pausesMs = [];
});
