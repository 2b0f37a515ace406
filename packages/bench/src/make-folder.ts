import { mkdirSync, statSync } from "node:fs";
import path from "node:path";

/**
 * Makes `folder` with its parents if it isn't there, one after the other: Node's `recursive` never returns under a folder that
 * takes none, such as /proc.
 */
export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder);
  } catch (error) {
    if (isFolder(folder)) return;
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || path.dirname(folder) === folder) throw error;
    makeFolder(path.dirname(folder));
    try {
      mkdirSync(folder);
    } catch (again) {
      // Another process makes the same folders.
      if (!isFolder(folder)) throw again;
    }
  }
}

function isFolder(name: string): boolean {
  try {
    return statSync(name).isDirectory();
  } catch {
    return false;
  }
}
