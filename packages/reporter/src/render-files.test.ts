import { expect, it } from "vitest";
import { fixedSummary } from "../test/fixed-summary.ts";
import { renderFiles } from "./render-files.ts";

it("makes charts with their data, the page, and a report that shows every chart", () => {
  const files = renderFiles(fixedSummary());
  const names = ["throughput", "scaling", "latency", "cost"];
  expect(files.map(({ path }) => path)).toEqual([
    ...names.flatMap((name) => ["light.svg", "dark.svg", "csv"].map((end) => `charts/${name}.${end}`)),
    "report.html",
    "REPORT.md",
  ]);
  for (const name of names) expect(files.at(-1)?.text).toContain(`src="charts/${name}.light.svg"`);
});

it("makes a report and a page of a run without points", () => {
  const files = renderFiles({ ...fixedSummary(), points: [], budgets: [] });
  expect(files.map(({ path }) => path)).toEqual(["report.html", "REPORT.md"]);
});
