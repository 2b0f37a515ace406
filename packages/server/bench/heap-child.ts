import { getHeapStatistics } from "node:v8";
import { BroadcastChannel, isMainThread, threadName } from "node:worker_threads";

// Imported into a server in a soak, which runs with --expose-gc: on SIGUSR2 every thread with connections collects its garbage,
// and the main one writes what is left as one line to stderr.

interface ThreadHeap {
  readonly heapMb: number;
  /** Buffers and native objects that JavaScript holds. */
  readonly externalMb: number;
  /** Of V8 itself, beside the heap. */
  readonly mallocedMb: number;
}

export interface HeapSample {
  /** After the collections. */
  readonly rssMb: number;
  /** By the threads' names. */
  readonly threads: Readonly<Record<string, ThreadHeap>>;
}

const CHANNEL = "heaps";
/** Threads that have not answered by then have no connections: the device's sleeps. */
const ANSWER_MS = 500;

function collect(): ThreadHeap {
  globalThis.gc?.();
  const { used_heap_size: heap, external_memory: external, malloced_memory: malloced } = getHeapStatistics();
  return { heapMb: heap / 1e6, externalMb: external / 1e6, mallocedMb: malloced / 1e6 };
}

if (isMainThread) {
  const channel = new BroadcastChannel(CHANNEL);
  channel.unref();
  let threads: Record<string, ThreadHeap> = {};
  channel.onmessage = ({ data }: MessageEvent) => {
    const [name, heap] = data as [string, ThreadHeap];
    threads[name] = heap;
  };
  process.on("SIGUSR2", () => {
    threads = {};
    channel.postMessage("collect");
    setTimeout(() => {
      threads["main"] = collect();
      const sample: HeapSample = { rssMb: process.memoryUsage.rss() / 1e6, threads };
      process.stderr.write(`HEAPS ${JSON.stringify(sample)}\n`);
    }, ANSWER_MS);
  });
} else if (threadName?.startsWith("frontend") === true) {
  const channel = new BroadcastChannel(CHANNEL);
  channel.unref();
  channel.onmessage = ({ data }: MessageEvent) => {
    if (data === "collect") channel.postMessage([threadName, collect()]);
  };
}
