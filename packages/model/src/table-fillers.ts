import { Worker } from "node:worker_threads";
import { fillTableChunk, type TableChunk } from "./table-chunks.ts";
import type { TableJob } from "./table-worker.ts";

/** Something that makes chunks of tables, one at a time. */
export interface TableFiller {
  /** Resolves to the chunk's bytes, which stay valid until the next call. */
  fill(chunk: TableChunk): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Fills on the calling thread: for models so small that starting a thread would take longer. */
export function localFiller(bufferBytes: number): TableFiller {
  const buffer = new ArrayBuffer(bufferBytes);
  return {
    fill: (chunk) => Promise.resolve(fillTableChunk(chunk, buffer)),
    close: () => Promise.resolve(),
  };
}

/** Fills in a thread of its own, over shared memory. */
export function workerFiller(bufferBytes: number): TableFiller {
  const buffer = new SharedArrayBuffer(bufferBytes);
  const entry = import.meta.url.endsWith(".ts") ? "./table-worker.ts" : "./table-worker.js";
  const worker = new Worker(new URL(entry, import.meta.url));
  let settle: { resolve(): void; reject(error: unknown): void } | undefined;
  let failure: unknown;
  worker.on("message", () => settle?.resolve());
  worker.on("error", (error) => {
    failure = error;
    settle?.reject(error);
  });
  worker.on("exit", (code) => {
    failure ??= new Error(`a thread of the export ended with code ${code}`);
    settle?.reject(failure);
  });
  return {
    fill: (chunk) =>
      new Promise((resolve, reject) => {
        if (failure !== undefined) throw failure;
        settle = { resolve: () => resolve(new Uint8Array(buffer, 0, chunk.rows * chunk.width * 4)), reject };
        worker.postMessage({ chunk, buffer } satisfies TableJob, []);
      }),
    close: async () => {
      await worker.terminate();
    },
  };
}
