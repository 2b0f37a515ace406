import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";

const WATCHER_ENTRY = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./process-guard-child.ts" : "./process-guard-child.js", import.meta.url),
);

/**
 * Sees to it that no process group outlives this process, whatever ends it, SIGKILL included: a small process of its own
 * session reads the groups from a pipe, and kills those that are left when the pipe closes.
 */
export class ProcessGuard {
  readonly #groups: Set<number> = new Set();
  #watcher: ChildProcess | undefined;

  /** Guards the process group that `leaderPid` leads. */
  add(leaderPid: number): void {
    this.#groups.add(leaderPid);
    this.#watcher ??= startWatcher();
    this.#tell(`+${leaderPid}\n`);
  }

  /** Once all of the group has ended. */
  remove(leaderPid: number): void {
    if (this.#groups.delete(leaderPid)) this.#tell(`-${leaderPid}\n`);
  }

  /** Kills every guarded group at once. */
  killAll(): void {
    for (const leaderPid of this.#groups) {
      signalGroup(leaderPid, "SIGKILL");
      this.remove(leaderPid);
    }
  }

  /** Kills what is left and ends the watcher. */
  close(): void {
    this.killAll();
    this.#watcher?.stdin?.end();
    this.#watcher = undefined;
  }

  #tell(line: string): void {
    this.#watcher?.stdin?.write(line);
  }
}

/**
 * Sends a signal to every process of a group.
 *
 * @returns whether there was any.
 */
export function signalGroup(leaderPid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leaderPid, signal);
    return true;
  } catch (error) {
    // EPERM: a group of zombies on some systems; ESRCH: no such group.
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ESRCH" || code === "EPERM") return false;
    throw error;
  }
}

function startWatcher(): ChildProcess {
  const watcher = spawn(process.execPath, [...process.execArgv, WATCHER_ENTRY], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  // A watcher that cannot run takes nothing from the run but this safety.
  watcher.on("error", () => undefined);
  watcher.stdin?.on("error", () => undefined);
  watcher.unref();
  (watcher.stdin as Socket | null)?.unref();
  return watcher;
}
