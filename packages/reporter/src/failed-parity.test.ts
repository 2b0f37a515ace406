import { describe, expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { compareWithinBudgets } from "./budgets.ts";
import { renderCharts } from "./charts.ts";
import { pageData } from "./page-data.ts";
import { renderReport } from "./render-report.ts";
import type { Summary } from "./summary.ts";
import { competingFamilies } from "./failed-parity.ts";

/** An engine arm that failed parity in a later repeat than the one that its fast point is of. */
function withFailedParity(): Summary {
  const points = [
    closedPoint("engine", 1, 1, [9000]),
    closedPoint("engine-batch", 1, 1, [4000]),
    closedPoint("py", 1, 1, [1000]),
  ];
  const arms = [
    { arm: "engine", title: "", family: "engine", status: "failed", reason: "scores are not the reference's" },
    { arm: "engine-batch", title: "", family: "engine", status: "ok" },
    { arm: "py", title: "", family: "python", status: "ok" },
  ] as const;
  const parity = [
    { arm: "engine", bReq: 1, maxAbsDiff: 0.01, ok: false },
    { arm: "py", bReq: 1, maxAbsDiff: 1e-7, ok: true },
  ];
  const budgets = compareWithinBudgets(points, competingFamilies({ arms, parity }));
  return { ...fixedSummary(), points, arms, parity, budgets };
}

describe("an arm that failed parity", () => {
  it("wins no comparison, with the points that it has from before", () => {
    const summary = withFailedParity();
    expect(summary.budgets.map(({ engine, ratio }) => [engine?.arm, ratio])).toEqual([
      ["engine-batch", 4],
      ["engine-batch", 4],
      ["engine-batch", 4],
    ]);
    const report = renderReport(summary);
    // Within each bound and with none.
    expect(report.match(/\| engine-batch 4,000 vs py 1,000 \| \*\*4\.00×\*\* \|/g)).toHaveLength(4);
    expect(report).not.toContain("engine 9,000 vs");
  });

  it("is marked in tables and charts", () => {
    const summary = withFailedParity();
    const report = renderReport(summary);
    expect(report).toContain("| 1 | 9,000 at C 1 § | 4,000 at C 1 | 1,000 at C 1 |");
    expect(report).toContain("§ arms that failed parity: left out, too.");
    expect(report).toMatch(/\| 1 \| 1 \| engine \| 9,000 .* \| failed parity §, 1 of 3 repeats \|/);
    expect(pageData(summary).points.map(({ leftOut }) => leftOut)).toEqual(["failed parity", "", ""]);
    const [throughput] = renderCharts(summary);
    expect(throughput?.svg.light).toContain("9,000 /s, failed parity");
    expect(throughput?.csv).toContain("1,engine,,,\n1,engine-batch,1,4000,5\n");
  });

  it("is not spoken of where there is none", () => {
    expect(renderReport(fixedSummary())).not.toContain("§");
  });
});
