import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { BenchError, messageOf } from "./bench-error.ts";

export const LOCK_FILE = "bench.lock";

/** Who holds a folder. The start time tells a process from a later one of the same pid; "" where there is no /proc. */
interface Holder {
  readonly pid: number;
  readonly startTicks: string;
  readonly since: string;
}

/**
 * Makes `workDir` if it isn't there, and takes it for this process: a second run in it would move the results of the first
 * aside while they are written. A lock whose holder has ended, however it did, is taken over.
 *
 * @returns gives the folder back.
 * @throws BenchError `usage` if another run has it, or it cannot be written.
 */
export function takeWorkDir(workDir: string): () => void {
  const file = path.join(workDir, LOCK_FILE);
  const { pid } = process;
  const mine = JSON.stringify({ pid, startTicks: startTicksOf(pid) ?? "", since: new Date().toISOString() });
  for (;;) {
    try {
      makeFolder(workDir);
      writeFileSync(file, mine, { flag: "wx" });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "EEXIST" || !isFile(file)) {
        const problem = `expected a folder that can be written, got ${workDir}: ${messageOf(cause)}`;
        throw new BenchError("usage", `--work_dir: ${problem}`, { cause });
      }
    }
    const text = readText(file);
    if (text === mine) return () => readText(file) === mine && rmSync(file, { force: true });
    const holder = parseHolder(text);
    if (holder !== undefined && isAlive(holder)) {
      throw new BenchError(
        "usage",
        `--work_dir: expected a folder that no other run uses, got ${workDir}, which process ${holder.pid} has used since ` +
          `${holder.since}: wait until it has ended, or name another folder`,
      );
    }
    rmSync(file, { force: true });
  }
}

/** One folder after the other: Node's `recursive` never returns under a folder that takes none, such as /proc. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return;
    if (code !== "ENOENT" || path.dirname(folder) === folder) throw error;
    makeFolder(path.dirname(folder));
    mkdirSync(folder);
  }
}

function isFile(file: string): boolean {
  return readText(file) !== undefined;
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

/** Undefined for half a file, which a process that ended at once has left. */
function parseHolder(text: string | undefined): Holder | undefined {
  try {
    const holder = JSON.parse(text ?? "") as Partial<Holder> | null;
    const { pid, startTicks = "", since = "an unknown time" } = holder ?? {};
    return typeof pid === "number" && Number.isSafeInteger(pid) && pid > 0 ? { pid, startTicks, since } : undefined;
  } catch {
    return undefined;
  }
}

function isAlive({ pid, startTicks }: Holder): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  const ticks = startTicksOf(pid);
  return startTicks === "" || ticks === undefined || ticks === startTicks;
}

/** Field 22 of /proc/<pid>/stat; names of programs, the second field, may have spaces. */
function startTicksOf(pid: number): string | undefined {
  const text = readText(`/proc/${pid}/stat`);
  return text?.slice(text.lastIndexOf(")") + 2).split(" ")[19];
}
