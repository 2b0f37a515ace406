/** Worker thread of an export: fills the buffers it is sent. */
import { parentPort } from "node:worker_threads";
import { fillTableChunk, type TableChunk } from "./table-chunks.ts";

export interface TableJob {
  readonly chunk: TableChunk;
  readonly buffer: SharedArrayBuffer;
}

parentPort?.on("message", ({ chunk, buffer }: TableJob) => {
  fillTableChunk(chunk, buffer);
  parentPort?.postMessage("filled", []);
});
