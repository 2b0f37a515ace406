import { readFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { KERNELS_TO_TEST } from "../test/kernels.ts";
import { openEmbeddingStore } from "./embedding-store.ts";

const DIM = 256;
const ROWS = 262_144;
const THREADS = 2;

/** The reference kernel is slow to read so much: only where it is the one to test. */
const FAST = KERNELS_TO_TEST.filter((kernel) => kernel !== "reference");

/** Proportional set size of this process. */
async function pssMib(): Promise<number> {
  const rollup = await readFile("/proc/self/smaps_rollup", "utf8");
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1]) / 1024;
}

function nextMessage(worker: Worker): Promise<unknown> {
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

describe.runIf(process.platform === "linux")("threads that gather from the same tables (PSS is Linux's)", () => {
  test.each(FAST.length > 0 ? FAST : KERNELS_TO_TEST)("hold one copy of them with the %s kernel", async (kernel) => {
    const store = await openEmbeddingStore(
      { rows: { t: { dim: DIM, data: new Float32Array(ROWS * DIM).fill(1) } } },
      { kernel },
    );
    const tableMib = store.tableBytes / 2 ** 20;
    expect(tableMib).toBe(256);
    const before = await pssMib();
    const workers = Array.from(
      { length: THREADS },
      () =>
        new Worker(new URL("../test/pss-worker.ts", import.meta.url), {
          workerData: { handle: store.handle() },
          execArgv: process.execArgv,
        }),
    );
    await Promise.all(workers.map(nextMessage));
    const growth = (await pssMib()) - before;
    const exits = workers.map((worker) => new Promise((resolve) => worker.once("exit", resolve)));
    for (const worker of workers) worker.postMessage("done");
    await Promise.all(exits);
    store.close();
    // Threads have heaps of their own, some dozens of MiB; a second copy would be 256.
    expect(growth).toBeLessThan(200);
  });
});
