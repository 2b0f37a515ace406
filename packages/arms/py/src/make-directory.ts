import { mkdir, stat } from "node:fs/promises";
import path from "node:path";

/**
 * Makes `dir` with its parents if it isn't there, one after the other: Node's `recursive` never returns under a directory that
 * takes none, such as /proc.
 */
export async function makeDirectory(dir: string): Promise<void> {
  try {
    await mkdir(dir);
  } catch (error) {
    if (await isDirectory(dir)) return;
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || path.dirname(dir) === dir) throw error;
    await makeDirectory(path.dirname(dir));
    try {
      await mkdir(dir);
    } catch (again) {
      // Another process makes the same directories.
      if (!(await isDirectory(dir))) throw again;
    }
  }
}

async function isDirectory(name: string): Promise<boolean> {
  return await stat(name).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}
