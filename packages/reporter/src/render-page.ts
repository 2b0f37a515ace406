import { formatNumber } from "./format.ts";
import { escapeHtml, markdownToHtml } from "./markdown-html.ts";
import { type PageData, pageData } from "./page-data.ts";
import { pageScript } from "./page-script.ts";
import { PAGE_STYLE } from "./page-style.ts";
import { renderReport } from "./render-report.ts";
import type { Summary } from "./summary.ts";
import { shortNumber, ticks } from "./svg.ts";

/**
 * report.html of a run: one file that loads nothing, with the charts of the run to play with and the report's tables.
 * Without JavaScript it shows the tables. The same summary always gives the same text.
 */
export function renderPage(summary: Summary): string {
  const data = pageData(summary);
  const report = renderReport(summary);
  // What comes before the first section says what the run was, and stays in either view.
  const split = report.indexOf("\n## ");
  const head = split < 0 ? report : report.slice(0, split);
  const sections = split < 0 ? "" : report.slice(split + 1);
  const title = `Benchmark: ${summary.preset} on ${summary.platform}`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>${escapeHtml(title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
${markdownToHtml(head)}
</header>
${controls(summary, data)}
<main>
<section id="charts" aria-label="Charts" hidden></section>
<section id="tables" aria-label="Tables">
${markdownToHtml(sections)}
</section>
</main>
<script type="application/json" id="data">${JSON.stringify(data).replaceAll("<", "\\u003c")}</script>
<script>
(${pageScript.toString()})(document, JSON.parse(document.getElementById("data").textContent), {
formatNumber: ${formatNumber.toString()},
shortNumber: ${shortNumber.toString()},
ticks: ${ticks.toString()},
});
</script>
</body>
</html>
`;
}

function controls(summary: Summary, data: PageData): string {
  const arms = data.arms
    .map(({ name, series }) => {
      const value = escapeHtml(name);
      return `<label><input type="checkbox" name="arm" value="${value}" checked><span class="swatch s${series % 8}"></span>${value}</label>`;
    })
    .join("\n");
  const budgets = [...new Set(summary.budgets.map(({ budgetMs }) => budgetMs))].sort((a, b) => a - b);
  const chosen = budgets.includes(20) ? 20 : budgets[0];
  const options = budgets
    .map(
      (budgetMs) =>
        `<option value="${budgetMs}"${budgetMs === chosen ? " selected" : ""}>p99 ≤ ${budgetMs} ms</option>`,
    )
    .join("");
  return `<form id="controls" hidden>
<fieldset><legend>Arms</legend>
${arms}
<span class="buttons"><button type="button" id="all">all</button> <button type="button" id="none">none</button></span>
</fieldset>
<label>Bound <select id="bound">${options}<option value="">any p99</option></select></label>
<fieldset><legend>View</legend>
<label><input type="radio" name="view" value="charts" checked> charts</label>
<label><input type="radio" name="view" value="tables"> tables</label>
</fieldset>
</form>`;
}
