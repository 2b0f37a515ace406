import { type ELDHistogram, monitorEventLoopDelay } from "node:perf_hooks";

/** How often it is looked at, milliseconds. */
const RESOLUTION_MS = 10;

/** How late this thread's event loop is, from now on, nanoseconds: what a request that comes has to wait at most. */
export function watchEventLoop(): ELDHistogram {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  return delay;
}
