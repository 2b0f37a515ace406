import { renderCharts } from "./charts.ts";
import { renderPage } from "./render-page.ts";
import { renderReport } from "./render-report.ts";
import type { Summary } from "./summary.ts";

export interface ReportFile {
  /** Relative to the folder of the report, with `/`. */
  readonly path: string;
  readonly text: string;
}

/** Every file that is made of a summary: `charts/…`, `report.html`, and `REPORT.md` last, which links to the others. */
export function renderFiles(summary: Summary): ReportFile[] {
  const charts = renderCharts(summary);
  const shown = charts.map(({ name, title }) => ({ file: `charts/${name}`, title }));
  return [
    ...charts.flatMap(({ name, svg, csv }) => [
      { path: `charts/${name}.light.svg`, text: svg.light },
      { path: `charts/${name}.dark.svg`, text: svg.dark },
      { path: `charts/${name}.csv`, text: csv },
    ]),
    { path: "report.html", text: renderPage(summary) },
    { path: "REPORT.md", text: renderReport(summary, { charts: shown }) },
  ];
}
