import { renderCharts, renderReport, type Summary } from "@dlrm/reporter";
import { renderEnvironment } from "./environment.ts";
import type { ResultsDir } from "./results-dir.ts";

/**
 * Writes `summary.json`, `env.txt`, the charts and REPORT.md.
 *
 * @returns the path of REPORT.md.
 */
export function writeReport(results: ResultsDir, summary: Summary): string {
  const charts = renderCharts(summary);
  for (const { name, svg, csv } of charts) {
    results.writeText(svg.light, "charts", `${name}.light.svg`);
    results.writeText(svg.dark, "charts", `${name}.dark.svg`);
    results.writeText(csv, "charts", `${name}.csv`);
  }
  results.writeText(renderEnvironment(summary.environment), "env.txt");
  results.writeJson(summary, "summary.json");
  const shown = charts.map(({ name, title }) => ({ file: `charts/${name}`, title }));
  return results.writeText(renderReport(summary, { charts: shown }), "REPORT.md");
}
