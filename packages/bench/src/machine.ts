import { accessSync, constants, readFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import path from "node:path";
import { parseCpuList } from "./cpu-list.ts";

/** What defaults are taken from. */
export interface Machine {
  /** CPUs that this process may use, ascending; never empty. */
  readonly cpus: readonly number[];
  readonly memoryBytes: number;
  /** Path of taskset (util-linux); without it nothing is pinned. */
  readonly taskset: string | undefined;
}

export function readMachine(): Machine {
  return { cpus: allowedCpus(), memoryBytes: totalmem(), taskset: findProgram("taskset") };
}

/** Disjoint CPUs for server and client: the halves of what there is; one CPU alone is shared. */
export function defaultCpuSplit(cpus: readonly number[]): { server: readonly number[]; client: readonly number[] } {
  const half = cpus.length >> 1;
  return half === 0 ? { server: cpus, client: cpus } : { server: cpus.slice(0, half), client: cpus.slice(half) };
}

function allowedCpus(): number[] {
  try {
    const status = readFileSync("/proc/self/status", "utf8");
    const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1];
    const cpus = list === undefined ? undefined : parseCpuList(list);
    if (cpus !== undefined && cpus.length > 0) return cpus;
  } catch {
    // Not Linux: count instead.
  }
  return Array.from({ length: Math.max(1, availableParallelism()) }, (_, cpu) => cpu);
}

/** The first executable file of that name on the PATH. */
export function findProgram(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(path.delimiter)) {
    const file = path.join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Look further.
    }
  }
  return undefined;
}
