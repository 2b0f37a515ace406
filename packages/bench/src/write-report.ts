import path from "node:path";
import { renderFiles, type Summary } from "@dlrm/reporter";
import { renderEnvironment } from "./environment.ts";
import type { ResultsDir } from "./results-dir.ts";

/**
 * Writes `summary.json`, which all else can be made of again, then `env.txt`, the charts, report.html and REPORT.md.
 *
 * @returns the path of REPORT.md.
 */
export function writeReport(results: ResultsDir, summary: Summary): string {
  results.writeJson(summary, "summary.json");
  results.writeText(renderEnvironment(summary.environment), "env.txt");
  for (const { path: file, text } of renderFiles(summary)) results.writeText(text, ...file.split("/"));
  return path.join(results.dir, "REPORT.md");
}
