import { mkdirSync } from "node:fs";
import path from "node:path";

/** One folder after the other: Node's `recursive` never returns under a folder that takes none, such as /proc. */
export function makeFolder(folder: string, mode: number): void {
  try {
    mkdirSync(folder, mode);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return;
    if (code !== "ENOENT" || path.dirname(folder) === folder) throw error;
    makeFolder(path.dirname(folder), mode);
    try {
      mkdirSync(folder, mode);
    } catch (again) {
      // Another process makes the same folders.
      if ((again as NodeJS.ErrnoException).code !== "EEXIST") throw again;
    }
  }
}
