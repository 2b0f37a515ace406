import { lstatSync, renameSync, rmSync, type Stats, writeFileSync } from "node:fs";
import path from "node:path";
import { BenchError, messageOf } from "./bench-error.ts";
import { makeFolder } from "./make-folder.ts";

export function resultsFolder(workDir: string): string {
  return path.join(workDir, "results");
}

/** The files of one run, `<work_dir>/results`. Files appear whole: each is written aside, to the disk, and renamed. */
export class ResultsDir {
  readonly dir: string;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /** The folder of a run that is continued. */
  static reopen(workDir: string): ResultsDir {
    return new ResultsDir(resultsFolder(workDir));
  }

  /** Makes an empty folder; results of an earlier run move to `results-<time>`. */
  static open(workDir: string): { results: ResultsDir; movedTo: string | undefined } {
    const dir = resultsFolder(workDir);
    const earlier = statsOf(dir);
    const movedTo = earlier === undefined ? undefined : moveAside(dir, earlier);
    makeFolder(dir);
    return { results: new ResultsDir(dir), movedTo };
  }

  /** Gives earlier results, if there are any, their place again, instead of this run's. @param movedTo where `open` has put them. */
  giveWayTo(movedTo: string | undefined): void {
    rmSync(this.dir, { recursive: true, force: true });
    if (movedTo !== undefined) renameSync(movedTo, this.dir);
  }

  /** Absolute path of a file of the run, whose folder exists then. */
  path(...parts: readonly string[]): string {
    const file = path.join(this.dir, ...parts);
    try {
      makeFolder(path.dirname(file));
    } catch (cause) {
      throw this.#failed(file, cause);
    }
    return file;
  }

  writeText(text: string, ...parts: readonly string[]): string {
    const file = this.path(...parts);
    try {
      // Flushed, since a file system may keep a name before it keeps what is in the file.
      writeFileSync(`${file}.partial`, text, { flush: true });
      renameSync(`${file}.partial`, file);
      return file;
    } catch (cause) {
      try {
        // On a full disk half a file is in the way of the rest.
        rmSync(`${file}.partial`, { force: true });
      } catch {
        // What failed first is told.
      }
      throw this.#failed(file, cause);
    }
  }

  #failed(file: string, cause: unknown): BenchError {
    const full = (cause as NodeJS.ErrnoException).code === "ENOSPC" ? " (the disk is full)" : "";
    return new BenchError(
      "results_failed",
      `cannot write ${file}: ${messageOf(cause)}${full}\n` +
        `What was measured before is in ${this.dir}; once that is put right, the same command with --resume goes on.`,
      { cause },
    );
  }

  writeJson(value: unknown, ...parts: readonly string[]): string {
    return this.writeText(`${JSON.stringify(value, null, 2)}\n`, ...parts);
  }
}

/** @returns the name that it has now, one that nothing had. */
function moveAside(dir: string, { mtime }: Stats): string {
  const name = `${dir}-${mtime.toISOString().replaceAll(/[:.]/g, "-")}`;
  for (let copy = 1; ; copy++) {
    const target = copy === 1 ? name : `${name}-${copy}`;
    if (statsOf(target) !== undefined) continue;
    try {
      renameSync(dir, target);
      return target;
    } catch (error) {
      // Something has got the name since.
      if (!TAKEN.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
}

/** How a file system says that there is something in the place that a folder is moved to. */
const TAKEN: ReadonlySet<string> = new Set(["EEXIST", "ENOTEMPTY", "ENOTDIR", "EISDIR"]);

/** Of a link itself, be it to nothing; undefined where nothing has the name. */
function statsOf(file: string): Stats | undefined {
  return lstatSync(file, { throwIfNoEntry: false });
}
