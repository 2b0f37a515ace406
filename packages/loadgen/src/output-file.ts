import { closeSync, openSync, rmSync, statSync, writeFileSync } from "node:fs";
import { LoadError, messageOf } from "./load-error.ts";

/**
 * Throws `invalid_options` if a result could not be written there: better before a run than after it. What is there stays as
 * it is until there is a result. A pipe or a device is not tried: opening one is seen at its other end.
 */
export function checkOutputFile(file: string): void {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found !== undefined && !found.isFile() && !found.isDirectory()) return;
    closeSync(openSync(file, "a"));
    if (found === undefined) rmSync(file);
  } catch (cause) {
    throw new LoadError("invalid_options", `cannot write ${file} (--output): ${messageOf(cause)}`, { cause });
  }
}

/** Writes the result there; if that fails all the same, to stdout, and says why. @returns whether the file has it. */
export function writeOutputFile(file: string, json: string): boolean {
  try {
    writeFileSync(file, json);
    return true;
  } catch (cause) {
    process.stdout.write(json);
    console.error(`dlrm-loadgen: cannot write ${file}, so the result is on stdout: ${messageOf(cause)}`);
    return false;
  }
}
