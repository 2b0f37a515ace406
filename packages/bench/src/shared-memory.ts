import { lstatSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import path from "node:path";
import { readDirectory } from "./process-tree.ts";

/** Names that arms give to what they share: their own prefix, and that of Python's `multiprocessing.shared_memory`. */
const OURS = /^(dlrm-|psm_)/;

/** Files in shared memory outlive a server that was killed: this finds those that an arm left, and removes them. */
export class SharedMemoryWatch {
  readonly #folder: string;
  readonly #uid: number | undefined;
  readonly #before: ReadonlySet<string>;

  /** Begin before the server starts. @param uid whose files may be removed: what others use cannot be known. */
  constructor(folder = "/dev/shm", uid: number | undefined = process.getuid?.()) {
    this.#folder = folder;
    this.#uid = uid;
    this.#before = new Set(readDirectory(folder));
  }

  /** Call once the server's processes have ended. What another process still uses stays. @returns what was removed. */
  removeLeft(): string[] {
    const left = readDirectory(this.#folder)
      .filter((name) => OURS.test(name) && !this.#before.has(name))
      .map((name) => path.join(this.#folder, name))
      .filter((file) => this.#isOwn(file));
    if (left.length === 0) return [];
    const used = filesInUse();
    return left.filter((file) => !used(file) && removed(file));
  }

  #isOwn(file: string): boolean {
    try {
      return lstatSync(file).uid === this.#uid;
    } catch {
      // Gone meanwhile.
      return false;
    }
  }
}

function removed(file: string): boolean {
  try {
    rmSync(file);
    return true;
  } catch {
    // Gone meanwhile, or not to be removed: no failure of the arm that may have left it.
    return false;
  }
}

/** Whether a process has a file open or mapped, as far as this one may look. */
function filesInUse(): (file: string) => boolean {
  const open = new Set<string>();
  const maps: string[] = [];
  for (const pid of readDirectory("/proc").filter((name) => /^\d+$/.test(name))) {
    for (const fd of readDirectory(`/proc/${pid}/fd`)) {
      try {
        open.add(readlinkSync(`/proc/${pid}/fd/${fd}`));
      } catch {
        // Closed meanwhile, or another user's.
      }
    }
    try {
      maps.push(readFileSync(`/proc/${pid}/maps`, "utf8"));
    } catch {
      // Ended meanwhile, or another user's.
    }
  }
  return (file) => open.has(file) || maps.some((text) => text.includes(` ${file}\n`));
}
