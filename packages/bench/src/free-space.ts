import { existsSync, statfsSync } from "node:fs";
import path from "node:path";
import { BenchError } from "./bench-error.ts";

/** @throws BenchError `prepare_failed` if a folder that may not exist yet has less room than `neededBytes`. */
export function requireFreeSpace(folder: string, neededBytes: number, purpose: string): void {
  let place = path.resolve(folder);
  while (!existsSync(place) && path.dirname(place) !== place) place = path.dirname(place);
  const { bavail, bsize } = statfsSync(place);
  const freeBytes = bavail * bsize;
  if (freeBytes >= neededBytes) return;
  const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  throw new BenchError(
    "prepare_failed",
    `${purpose} needs ${gib(neededBytes)} in ${folder}, where ${gib(freeBytes)} are free: free some, or set --work_dir`,
  );
}
