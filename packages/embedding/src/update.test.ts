import { readFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { KERNELS_TO_TEST } from "../test/kernels.ts";
import { openEmbeddingStore } from "./embedding-store.ts";

/** Long rows, so that a row being written is often met by a reader. */
const DIM = 4096;
const ROWS = 300;
const READERS = 2;
const UPDATES = 60;

const filled = (rows: number, dim: number, value: number) => new Float32Array(rows * dim).fill(value);

describe.each(KERNELS_TO_TEST)("with the %s kernel, updates", (kernel) => {
  test("are seen whole or not at all by readers at full speed, and never go back", async () => {
    const store = await openEmbeddingStore(
      { rows: { t: { dim: DIM, data: filled(ROWS, DIM, 0) }, u: { dim: 1, data: filled(2, 1, 0) } } },
      { kernel },
    );
    const progress = new Int32Array(new SharedArrayBuffer(4));
    const readers = Array.from(
      { length: READERS },
      () =>
        new Worker(new URL("../test/update-reader.ts", import.meta.url), {
          workerData: { handle: store.handle(), lastEpoch: UPDATES, progress },
          execArgv: process.execArgv,
        }),
    );
    const answers = readers.map(
      (reader) =>
        new Promise((resolve, reject) => {
          reader.once("message", resolve);
          reader.once("error", reject);
        }),
    );
    // Until the readers gather; after that a writer waits for none of them.
    await Promise.race([Atomics.waitAsync(progress, 0, 0).value, ...answers]);
    for (let epoch = 1; epoch <= UPDATES; epoch++) {
      // Rows, a range and a whole table in turn, always together with the other table's.
      const updates =
        epoch % 10 === 0
          ? [{ table: "t", firstRow: 0, rows: filled(ROWS, DIM, epoch) }]
          : [0, ROWS - 1].map((firstRow) => ({ table: "t", firstRow, rows: filled(1, DIM, epoch) }));
      expect(store.update([...updates, { table: "u", firstRow: 0, rows: filled(2, 1, epoch) }])).toBe(epoch);
    }
    expect(await Promise.all(answers)).toEqual(readers.map(() => "whole"));
    store.close();
  });

  test.runIf(process.platform === "linux")("leave no copies behind", async () => {
    const dim = 1024;
    const rows = 16_384;
    const store = await openEmbeddingStore({ rows: { t: { dim, data: filled(rows, dim, 0) } } }, { kernel });
    const data = filled(rows, dim, 1);
    store.update([{ table: "t", firstRow: 0, rows: data }]);
    const before = await pssMib();
    for (let epoch = 0; epoch < 8; epoch++) store.update([{ table: "t", firstRow: 0, rows: data }]);
    // Eight times 64 MiB were written.
    expect((await pssMib()) - before).toBeLessThan(64);
    store.close();
  });
});

/** Proportional set size of this process. */
async function pssMib(): Promise<number> {
  const rollup = await readFile("/proc/self/smaps_rollup", "utf8");
  return Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1]) / 1024;
}
