import type { FilledLoadOptions } from "./load-options.ts";

/** What one load process does of a run. */
export interface Share {
  readonly part: number;
  readonly parts: number;
  readonly connections: number;
  /** Closed-loop callers; 0 in an open loop. */
  readonly callers: number;
}

/**
 * Deals connections and callers out to processes. Caller i uses connection i modulo the connections, and connection c
 * belongs to process c modulo the processes, so no two differ by more than one.
 *
 * A closed loop opens no connection without a caller. `cpuCount` is how many CPUs the load processes may use.
 */
export function planShares(options: FilledLoadOptions, cpuCount: number): Share[] {
  const callers = options.mode.kind === "closed" ? options.mode.concurrency : 0;
  const connections = options.mode.kind === "closed" ? Math.min(options.connections, callers) : options.connections;
  const parts = Math.min(options.processes ?? Math.min(8, cpuCount), connections);
  return Array.from({ length: parts }, (_, part) => {
    let own = 0;
    let ownCallers = 0;
    for (let connection = part; connection < connections; connection += parts) {
      own++;
      ownCallers += Math.ceil(Math.max(0, callers - connection) / connections);
    }
    return { part, parts, connections: own, callers: ownCallers };
  });
}
