import { GCProfiler, getHeapStatistics } from "node:v8";

// Imported into a server under measurement: on SIGUSR2 it writes what the garbage collector of the main thread did since the last
// time, as one line to stderr. Not for latencies: see pause-child.ts.

/** Allocation in the JavaScript heap, and what became of it. */
export interface Collections {
  readonly allocatedBytes: number;
  /** What collections of the young generation moved to the old one. */
  readonly promotedBytes: number;
  readonly youngCollections: number;
  readonly fullCollections: number;
}

type Statistics = ReturnType<GCProfiler["stop"]>["statistics"];

let profiler = new GCProfiler();
let usedBytes = 0;

function start(): void {
  profiler = new GCProfiler();
  usedBytes = getHeapStatistics().used_heap_size;
  profiler.start();
}

function sumUp(statistics: Statistics): Collections {
  let allocatedBytes = 0;
  let promotedBytes = 0;
  let lastBytes = usedBytes;
  const ofType = (type: string): Statistics => statistics.filter(({ gcType }) => gcType === type);
  for (const { beforeGC, afterGC } of statistics) {
    allocatedBytes += beforeGC.heapStatistics.usedHeapSize - lastBytes;
    lastBytes = afterGC.heapStatistics.usedHeapSize;
  }
  const young = ofType("Scavenge");
  for (const { beforeGC, afterGC } of young) promotedBytes += oldBytes(afterGC) - oldBytes(beforeGC);
  return {
    allocatedBytes: allocatedBytes + getHeapStatistics().used_heap_size - lastBytes,
    promotedBytes,
    youngCollections: young.length,
    fullCollections: ofType("MarkSweepCompact").length,
  };
}

function oldBytes({ heapSpaceStatistics }: Statistics[number]["beforeGC"]): number {
  return heapSpaceStatistics.find(({ spaceName }) => spaceName === "old_space")?.spaceUsedSize ?? 0;
}

process.on("SIGUSR2", () => {
  process.stderr.write(`GC ${JSON.stringify(sumUp(profiler.stop().statistics))}\n`);
  start();
});
start();
