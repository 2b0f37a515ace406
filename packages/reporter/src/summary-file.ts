import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { makeFolder } from "./make-folder.ts";
import { renderFiles } from "./render-files.ts";
import { ReporterError } from "./reporter-error.ts";
import type { Summary } from "./summary.ts";
import { validateSummary } from "./validate-summary.ts";

/**
 * The summary of a run.
 *
 * @param place `summary.json`, or the folder that it is in.
 * @throws ReporterError `file_failed` or `invalid_summary`, with the file's name.
 */
export function readSummary(place: string): Summary {
  let file = place;
  let text: string;
  try {
    if (statSync(place).isDirectory()) file = path.join(place, "summary.json");
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw new ReporterError("file_failed", `cannot read ${file}: ${(cause as Error).message}`, [], { cause });
  }
  try {
    return validateSummary(JSON.parse(text));
  } catch (cause) {
    if (cause instanceof ReporterError) {
      throw new ReporterError(cause.code, `${file}: ${cause.message}`, cause.problems, { cause });
    }
    throw new ReporterError("file_failed", `${file} is no JSON: ${(cause as Error).message}`, [], { cause });
  }
}

/** Writes every file of `renderFiles` into a folder; each appears whole. @returns their paths. */
export function writeReportFiles(summary: Summary, folder: string): string[] {
  return renderFiles(summary).map(({ path: relative, text }) => {
    const file = path.join(folder, ...relative.split("/"));
    const partial = `${file}.partial`;
    try {
      makeFolder(path.dirname(file));
      writeFileSync(partial, text);
      renameSync(partial, file);
    } catch (cause) {
      remove(partial);
      throw new ReporterError("file_failed", `cannot write ${file}: ${(cause as Error).message}`, [], { cause });
    }
    return file;
  });
}

function remove(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // What could not be written is what to tell of.
  }
}
