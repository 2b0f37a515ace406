import { readdirSync, readFileSync } from "node:fs";
import {
  parseContextSwitches,
  parsePids,
  parsePssBytes,
  parseSchedstatMicros,
  parseStat,
  type ProcStat,
} from "./proc-text.ts";

/** One thread at one moment. */
export interface ThreadStat {
  readonly tid: number;
  readonly name: string;
  /** Since the thread began; 0 where the kernel keeps no schedstat. */
  readonly cpuMicros: number;
  readonly contextSwitches: number;
}

/** PSS of a process: its bytes, or that there is no such process any more, or that we may not read it. */
export type PssReading = { readonly kind: "bytes"; readonly bytes: number } | { readonly kind: "gone" | "unreadable" };

/**
 * Reads /proc. Processes may end at any moment: what is gone is undefined or empty, never an error.
 * All reads are synchronous, so that a sample is of one moment and a mark can stand exactly between two phases.
 */
export class Proc {
  readonly #root: string;

  constructor(root: string = "/proc") {
    this.#root = root;
  }

  stat(pid: number): ProcStat | undefined {
    const text = this.#read(`${pid}/stat`);
    return text === undefined ? undefined : parseStat(text);
  }

  /**
   * Pids of the children of a process. A child belongs to the thread that made it, so all threads are asked; where the
   * kernel does not list children, all processes of the system are.
   */
  children(pid: number): number[] {
    const children: number[] = [];
    for (const tid of this.#pids(`${pid}/task`)) {
      const text = this.#read(`${pid}/task/${tid}/children`);
      if (text === undefined) {
        // The thread may just have ended; the main thread's file tells whether the kernel has them at all.
        if (tid === pid && this.#read(`${pid}/stat`) !== undefined) return this.#childrenByParent(pid);
        continue;
      }
      children.push(...parsePids(text));
    }
    return children;
  }

  /** Threads of a process, with their context switches and CPU time. */
  threads(pid: number): ThreadStat[] {
    const threads: ThreadStat[] = [];
    for (const tid of this.#pids(`${pid}/task`)) {
      const status = this.#read(`${pid}/task/${tid}/status`);
      if (status === undefined) continue;
      threads.push({
        tid,
        name: /^Name:\t(.*)$/m.exec(status)?.[1] ?? "",
        cpuMicros: parseSchedstatMicros(this.#read(`${pid}/task/${tid}/schedstat`) ?? ""),
        contextSwitches: parseContextSwitches(status),
      });
    }
    return threads;
  }

  /** Proportional set size. Slow for large processes: the kernel walks all their pages. */
  pss(pid: number): PssReading {
    try {
      const bytes = parsePssBytes(readFileSync(`${this.#root}/${pid}/smaps_rollup`, "utf8"));
      // A process that is ending has no memory map any more.
      return bytes === undefined ? { kind: "gone" } : { kind: "bytes", bytes };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return { kind: code === "EACCES" || code === "EPERM" ? "unreadable" : this.#whyNoPss(pid) };
    }
  }

  /** Without the file: the process is gone, or the kernel is too old to have it. */
  #whyNoPss(pid: number): "gone" | "unreadable" {
    const stat = this.stat(pid);
    return stat === undefined || stat.state === "Z" || stat.rssPages === 0 ? "gone" : "unreadable";
  }

  #childrenByParent(parentPid: number): number[] {
    return this.#pids("").filter((pid) => this.stat(pid)?.parentPid === parentPid);
  }

  #pids(folder: string): number[] {
    try {
      return readdirSync(`${this.#root}/${folder}`)
        .filter((name) => /^\d+$/.test(name))
        .map(Number);
    } catch {
      return [];
    }
  }

  #read(file: string): string | undefined {
    try {
      return readFileSync(`${this.#root}/${file}`, "utf8");
    } catch {
      return undefined;
    }
  }
}
