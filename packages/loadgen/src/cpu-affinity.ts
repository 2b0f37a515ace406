import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { parseCpuList } from "./cpu-list.ts";

/** CPUs that a process may run on, by the kernel; undefined where it does not say (not Linux, or the process is gone). */
export function allowedCpus(pid: number | "self" = "self"): number[] | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const list = /^Cpus_allowed_list:\s*(\S+)/m.exec(status)?.[1];
    return list === undefined ? undefined : parseCpuList(list);
  } catch {
    return undefined;
  }
}

/** CPUs that this process may use, as a number. */
export function allowedCpuCount(): number {
  return allowedCpus()?.length ?? availableParallelism();
}

/** Path of `taskset`, which starts a program on given CPUs; undefined where there is none. */
export function findTaskset(searchPath: string = process.env["PATH"] ?? ""): string | undefined {
  if (process.platform !== "linux") return undefined;
  for (const folder of [...searchPath.split(path.delimiter), "/usr/bin", "/bin"]) {
    const file = path.join(folder, "taskset");
    if (folder !== "" && existsSync(file)) return file;
  }
  return undefined;
}
