import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import type { ArmCommand } from "@dlrm/arm-contract";
import { formatCpuList, parseCpuList } from "./cpu-list.ts";
import { processTree, readDirectory } from "./process-tree.ts";

/** The command that runs only on these CPUs; unchanged without taskset. */
export function pinned(command: ArmCommand, cpus: readonly number[], taskset: string | undefined): ArmCommand {
  if (taskset === undefined) return command;
  return { ...command, file: taskset, args: ["-c", formatCpuList(cpus), command.file, ...command.args] };
}

export interface PinningCheck {
  readonly processes: number;
  readonly threads: number;
  /** Threads that may run elsewhere, in words; empty is what should be. */
  readonly strays: readonly string[];
}

/** Reads where each thread of a process and its descendants may run. Threads that end meanwhile are left out. */
export function checkPinning(pid: number, cpus: readonly number[]): PinningCheck {
  const strays: string[] = [];
  const tree = processTree(pid);
  let threads = 0;
  for (const member of tree) {
    for (const thread of readDirectory(`/proc/${member}/task`)) {
      const list = allowedList(`/proc/${member}/task/${thread}/status`);
      if (list === undefined) continue;
      threads++;
      if (parseCpuList(list)?.every((cpu) => cpus.includes(cpu)) !== true) {
        strays.push(`thread ${thread} of process ${member} may run on ${list}`);
      }
    }
  }
  return { processes: tree.length, threads, strays };
}

/**
 * Moves every thread of this process to these CPUs, so that the bench itself takes nothing from the server.
 *
 * @returns why it could not, if so.
 */
export function pinSelf(cpus: readonly number[], taskset: string | undefined): string | undefined {
  if (taskset === undefined) return undefined;
  const { status, error, stderr } = spawnSync(taskset, ["-apc", formatCpuList(cpus), String(process.pid)], {
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
  });
  if (status === 0) return undefined;
  return error?.message ?? `${taskset}: exit code ${status}: ${stderr.trim()}`;
}

function allowedList(statusFile: string): string | undefined {
  try {
    return /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(statusFile, "latin1"))?.[1];
  } catch {
    return undefined;
  }
}
