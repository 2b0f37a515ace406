import { mkdir, readdir, rename, rm, rmdir } from "node:fs/promises";
import { hostname } from "node:os";
import path from "node:path";
import { isMissing } from "./bundle.ts";
import { makeDirectory } from "./make-directory.ts";
import { ModelError } from "./model-error.ts";

let count = 0;

/**
 * Makes a directory whole or not at all: `fill` writes into a hidden directory beside `target`, which gets the target's name
 * when `fill` has returned, and is deleted when it throws. What processes of this machine that were killed left behind is
 * deleted first.
 * @throws {ModelError} `bundle_exists` if there is something at `target`, now or at the end; an empty directory counts as none.
 */
export async function fillDirectory<Result>(
  target: string,
  fill: (directory: string) => Promise<Result>,
): Promise<Result> {
  await refuseExisting(target);
  const parent = path.dirname(target);
  await makeDirectory(parent);
  const prefix = `.${path.basename(target)}.partial-${hostname()}-`;
  await deleteOrphans(parent, prefix);
  const staging = path.join(parent, `${prefix}${process.pid}-${count++}`);
  try {
    await mkdir(staging);
    const result = await fill(staging);
    await moveInto(staging, target);
    return result;
  } catch (error) {
    await rm(staging, { recursive: true, force: true });
    throw error;
  }
}

async function refuseExisting(target: string): Promise<void> {
  let entries: string[];
  try {
    entries = await readdir(target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") throw exists(target);
    if (isMissing(error)) return;
    throw error;
  }
  if (entries.length > 0) throw exists(target);
}

async function moveInto(staging: string, target: string): Promise<void> {
  try {
    // An empty directory would stop the rename on Windows.
    await rmdir(target).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    await rename(staging, target);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOTEMPTY" || code === "EEXIST" || code === "ENOTDIR") throw exists(target, cause);
    throw cause;
  }
}

async function deleteOrphans(parent: string, prefix: string): Promise<void> {
  for (const entry of await readdir(parent)) {
    if (!entry.startsWith(prefix)) continue;
    const pid = Number(entry.slice(prefix.length).split("-", 1)[0]);
    if (Number.isSafeInteger(pid) && pid > 0 && !isRunning(pid)) {
      await rm(path.join(parent, entry), { recursive: true, force: true });
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function exists(target: string, cause?: unknown): ModelError {
  return new ModelError("bundle_exists", `${target} exists already and is left as it is`, { cause });
}
