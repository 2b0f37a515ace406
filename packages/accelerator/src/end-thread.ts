import type { Worker } from "node:worker_threads";

/** How long a thread may take to end: one that is stuck in native code can't be stopped by anybody. */
const GRACE_MS = 1000;

/** Stops a thread, whatever it does, and waits until it has ended; past the grace it is left to itself, holding nothing open. */
export async function endThread(worker: Worker): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const grace = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, GRACE_MS);
  });
  await Promise.race([worker.terminate(), grace]);
  clearTimeout(timer);
  worker.unref();
}
