import type { Proc } from "./proc.ts";

interface Seen {
  readonly name: string;
  cpuMicros: number;
  contextSwitches: number;
}

/**
 * Context switches and CPU time of threads, by thread name, over all processes of a tree. Threads that ended keep what
 * they were last seen with; what a thread did between that and its end is not known.
 */
export class ThreadLedger {
  readonly #proc: Proc;
  #running = new Map<string, Seen>();
  #endedSwitches = 0;
  readonly #endedMicros = new Map<string, number>();

  constructor(proc: Proc) {
    this.#proc = proc;
  }

  refresh(pids: readonly number[]): void {
    const now = new Map<string, Seen>();
    for (const pid of pids) {
      for (const { tid, ...thread } of this.#proc.threads(pid)) {
        const key = `${pid}/${tid}`;
        const old = this.#running.get(key);
        // Counts only rise: lower ones are another thread's, with the same number.
        if (old !== undefined && old.contextSwitches > thread.contextSwitches) this.#end(old);
        now.set(key, thread);
        this.#running.delete(key);
      }
    }
    for (const ended of this.#running.values()) this.#end(ended);
    this.#running = now;
  }

  get contextSwitches(): number {
    let sum = this.#endedSwitches;
    for (const thread of this.#running.values()) sum += thread.contextSwitches;
    return sum;
  }

  /** CPU time by thread name, microseconds. */
  cpuMicrosByName(): Record<string, number> {
    const sums = new Map(this.#endedMicros);
    for (const { name, cpuMicros } of this.#running.values()) sums.set(name, (sums.get(name) ?? 0) + cpuMicros);
    return Object.fromEntries(sums);
  }

  #end(thread: Seen): void {
    this.#endedSwitches += thread.contextSwitches;
    this.#endedMicros.set(thread.name, (this.#endedMicros.get(thread.name) ?? 0) + thread.cpuMicros);
  }
}
