/**
 * One way to gather, in a process of its own: `node gather-variant.ts FILE KERNEL MODE`. Prints a JSON line when ready, then answers
 * each JSON line of standard input by one.
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { attachEmbeddingStore, openEmbeddingStore } from "../src/index.ts";
import type { EmbeddingStore, EmbeddingStoreHandle, KernelChoice } from "../src/index.ts";
import { HOT_SIZES, fillRandomIds, xorshift32 } from "./workload.ts";

/** What a process is asked. */
export type Question =
  | { readonly kind: "gather"; readonly batch: number; readonly seconds: number; readonly threads: number }
  | { readonly kind: "call"; readonly seconds: number }
  | { readonly kind: "pss"; readonly threads: number };

/** More ids than caches hold rows of, whatever the batch. */
const EXAMPLES_IN_POOL = 16_384;

function planOf(store: EmbeddingStore) {
  return store.plan(HOT_SIZES.map((hotSize, feature) => ({ table: `sparse_${feature}`, hotSize })));
}

/** Examples a second of one thread. */
function measureGather(
  store: EmbeddingStore,
  batch: number,
  seconds: number,
  seed: number,
  examplesInPool = EXAMPLES_IN_POOL,
): number {
  const plan = planOf(store);
  const random = xorshift32(seed);
  const rows = store.tables.map((table) => table.rows);
  const pool = Array.from({ length: examplesInPool / batch }, () => {
    const ids = new Int32Array(new SharedArrayBuffer(plan.idsPerExample * batch * 4));
    fillRandomIds(ids, rows, batch, random);
    return ids;
  });
  const output = new Float32Array(new SharedArrayBuffer(plan.outputWidth * batch * 4));
  const run = (limitMs: number): number => {
    const start = performance.now();
    let calls = 0;
    while (performance.now() - start < limitMs) {
      for (let i = 0; i < Math.max(1, 32 / batch); i++)
        plan.gather(pool[calls++ % pool.length] as Int32Array, batch, output, 0);
    }
    return (calls * batch) / ((performance.now() - start) / 1000);
  };
  run(100);
  return run(seconds * 1000);
}

/** Microseconds of a call that has nothing to do. */
async function measureCall(kernel: KernelChoice, seconds: number): Promise<number> {
  const store = await openEmbeddingStore({ rows: { t: { dim: 1, data: Float32Array.of(1) } } }, { kernel });
  const plan = store.plan([{ table: "t", hotSize: 1 }]);
  const ids = new Int32Array(new SharedArrayBuffer(4));
  const output = new Float32Array(new SharedArrayBuffer(4));
  let calls = 0;
  let start = performance.now();
  for (const limitMs of [200, seconds * 1000]) {
    start = performance.now();
    for (calls = 0; performance.now() - start < limitMs; calls += 1000) {
      for (let i = 0; i < 1000; i++) plan.gather(ids, 1, output, 0);
    }
  }
  return ((performance.now() - start) * 1000) / calls;
}

/** MiB of proportional set size of this process beyond the tables. */
function pssOverTablesMib(tableBytes: number): number {
  const pssKib = Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))?.[1]);
  return pssKib / 1024 - tableBytes / 2 ** 20;
}

interface ThreadTask {
  readonly handle: EmbeddingStoreHandle;
  readonly batch: number;
  readonly seconds: number;
  readonly seed: number;
  /** Default: enough that no cache holds their rows. */
  readonly examplesInPool?: number;
}

function measureInThread(task: ThreadTask): Promise<number> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: task, execArgv: process.execArgv });
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

async function answer(store: EmbeddingStore, kernel: KernelChoice, question: Question): Promise<number> {
  switch (question.kind) {
    case "gather": {
      const { batch, seconds, threads } = question;
      const handle = store.handle();
      const others = Array.from({ length: threads - 1 }, (_, at) =>
        measureInThread({ handle, batch, seconds, seed: at + 2 }),
      );
      // A thread that has only just started must not measure alone: this one measures in a thread too.
      const own =
        threads === 1 ? measureGather(store, batch, seconds, 1) : measureInThread({ handle, batch, seconds, seed: 1 });
      const rates = await Promise.all([own, ...others]);
      return rates.reduce((sum, rate) => sum + rate, 0);
    }
    case "call":
      return measureCall(kernel, question.seconds);
    case "pss": {
      const handle = store.handle();
      const tasks = Array.from({ length: question.threads }, (_, at) =>
        measureInThread({ handle, batch: 128, seconds: 3, seed: at + 1, examplesInPool: 1024 }),
      );
      // In the middle of the threads' work.
      await new Promise((resolve) => setTimeout(resolve, 2500));
      const mib = pssOverTablesMib(store.tableBytes);
      await Promise.all(tasks);
      return mib;
    }
  }
}

async function main(): Promise<void> {
  const [file = "", kernel = "native", mode = "memory"] = process.argv.slice(2);
  const start = performance.now();
  const store = await openEmbeddingStore(
    { safetensors: file },
    { kernel: kernel as KernelChoice, mode: mode as "memory" | "mmap" },
  );
  const openSeconds = (performance.now() - start) / 1000;
  console.log(JSON.stringify({ openSeconds, kernel: store.kernel.name, tableBytes: store.tableBytes }));
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await answer(store, kernel as KernelChoice, JSON.parse(line) as Question)));
  }
}

if (isMainThread) {
  await main();
} else {
  const { handle, batch, seconds, seed, examplesInPool } = workerData as ThreadTask;
  const store = attachEmbeddingStore(handle);
  parentPort?.postMessage(measureGather(store, batch, seconds, seed, examplesInPool));
  store.close();
}
