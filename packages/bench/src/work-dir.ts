import { randomUUID } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  lstatSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { BenchError, messageOf } from "./bench-error.ts";
import { makeFolder } from "./make-folder.ts";

export const LOCK_FILE = "bench.lock";

/** Who holds a folder. The start time tells a process from a later one of the same pid; "" where there is no /proc. */
interface Holder {
  readonly pid: number;
  /** Of the machine: of another one's processes nothing can be known. */
  readonly host: string;
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
  const since = new Date().toISOString();
  const mine = JSON.stringify({ pid, host: hostname(), startTicks: startTicksOf(pid) ?? "", since });
  try {
    makeFolder(workDir);
    takeLock(file, mine, workDir);
  } catch (cause) {
    throw cause instanceof BenchError ? cause : cannotBeWritten(workDir, cause);
  }
  return () => readText(file) === mine && rmSync(file, { force: true });
}

/**
 * Looks whether `workDir` could be made and written, and makes nothing.
 *
 * @throws BenchError `usage` if not.
 */
export function checkWorkDir(workDir: string): void {
  try {
    let there = workDir;
    // A link to nothing is there: no folder can be made in its place.
    while (!existsSync(there) && !isLink(there)) there = path.dirname(there);
    if (!statSync(there).isDirectory()) throw new Error(`${there} is not a folder`);
    accessSync(there, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw cannotBeWritten(workDir, cause);
  }
}

function isLink(name: string): boolean {
  try {
    return lstatSync(name).isSymbolicLink();
  } catch {
    return false;
  }
}

function cannotBeWritten(workDir: string, cause: unknown): BenchError {
  const problem = `expected a folder that can be written, got ${workDir}: ${messageOf(cause)}`;
  return new BenchError("usage", `--work_dir: ${problem}`, { cause });
}

function takeLock(file: string, mine: string, workDir: string): void {
  while (!place(file, mine)) {
    const text = readLock(file);
    if (text === undefined) continue;
    const holder = parseHolder(text);
    if (holder !== undefined && mayRun(holder)) throw inUse(workDir, holder);
    removeStale(file, text, mine, workDir);
  }
}

/**
 * Removes the lock if it is still the one that says `text`: of two that find a stale one, one may have made its own since.
 * Only who has the lock for that may, so that nobody's lock is ever away from its place.
 */
function removeStale(file: string, text: string, mine: string, workDir: string): void {
  const takeover = `${file}.takeover`;
  takeLock(takeover, mine, workDir);
  try {
    if (readText(file) === text) rmSync(file, { force: true });
  } finally {
    rmSync(takeover, { force: true });
  }
}

/** Undefined if it has just been given back. */
function readLock(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function inUse(workDir: string, { pid, host, since }: Holder): BenchError {
  const isElsewhere = host !== hostname();
  return new BenchError(
    "usage",
    `--work_dir: expected a folder that no other run uses, got ${workDir}, which process ${pid}` +
      `${isElsewhere ? ` of ${host}` : ""} has used since ${since}: wait until it has ended, or name another folder` +
      (isElsewhere ? `; if it has ended already, remove ${path.join(workDir, LOCK_FILE)}` : ""),
  );
}

/** Makes the lock, whole from the first moment on; false if there is one. */
function place(file: string, text: string): boolean {
  const whole = `${file}.${randomUUID()}`;
  try {
    writeFileSync(whole, text, { flag: "wx" });
    return linked(whole, file) ?? written(file, text);
  } finally {
    rmSync(whole, { force: true });
  }
}

/** Undefined on a file system without links. */
function linked(whole: string, file: string): boolean | undefined {
  try {
    linkSync(whole, file);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EEXIST" ? false : undefined;
  }
}

function written(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

/** Undefined for a file that no run has made. */
function parseHolder(text: string | undefined): Holder | undefined {
  try {
    const holder = JSON.parse(text ?? "") as Partial<Holder> | null;
    const { pid, host = hostname(), startTicks = "", since = "an unknown time" } = holder ?? {};
    return typeof pid === "number" && Number.isSafeInteger(pid) && pid > 0
      ? { pid, host, startTicks, since }
      : undefined;
  } catch {
    return undefined;
  }
}

function mayRun({ pid, host, startTicks }: Holder): boolean {
  if (host !== hostname()) return true;
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
