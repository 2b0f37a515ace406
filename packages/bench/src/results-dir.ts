import { existsSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { BenchError, messageOf } from "./bench-error.ts";

/** The files of one run, `<work_dir>/results`. Files appear whole: each is written aside and renamed. */
export class ResultsDir {
  readonly dir: string;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /** Makes an empty folder; results of an earlier run move to `results-<time>`. */
  static open(workDir: string): { results: ResultsDir; movedTo: string | undefined } {
    const dir = path.join(workDir, "results");
    let movedTo: string | undefined;
    if (existsSync(dir)) {
      const time = statSync(dir).mtime.toISOString().replaceAll(/[:.]/g, "-");
      movedTo = `${dir}-${time}`;
      for (let copy = 2; existsSync(movedTo); copy++) movedTo = `${dir}-${time}-${copy}`;
      renameSync(dir, movedTo);
    }
    mkdirSync(dir, { recursive: true });
    return { results: new ResultsDir(dir), movedTo };
  }

  /** Absolute path of a file of the run, whose folder exists then. */
  path(...parts: readonly string[]): string {
    const file = path.join(this.dir, ...parts);
    mkdirSync(path.dirname(file), { recursive: true });
    return file;
  }

  writeText(text: string, ...parts: readonly string[]): string {
    try {
      const file = this.path(...parts);
      writeFileSync(`${file}.partial`, text);
      renameSync(`${file}.partial`, file);
      return file;
    } catch (cause) {
      throw new BenchError("results_failed", `cannot write ${path.join(this.dir, ...parts)}: ${messageOf(cause)}`, {
        cause,
      });
    }
  }

  writeJson(value: unknown, ...parts: readonly string[]): string {
    return this.writeText(`${JSON.stringify(value, null, 2)}\n`, ...parts);
  }
}
