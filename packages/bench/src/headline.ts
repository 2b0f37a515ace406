import { armsThatFailedParity, bestPoint, type Summary } from "@dlrm/reporter";

const BUDGET_MS = 20;

/** The few lines that a run ends with. */
export function renderHeadline(summary: Summary): string {
  const label = summary.simulatedAccelerator ? ", simulated accelerator" : "";
  const lines = [`Examples/s at p99 ≤ ${BUDGET_MS} ms (${summary.preset} on ${summary.platform}${label})`];
  const failedParity = armsThatFailedParity(summary);
  const arms = [...new Set(summary.points.map((point) => point.arm))];
  const sizes = [...new Set(summary.points.map((point) => point.bReq))].sort((a, b) => a - b);
  const rows = [["B_req", ...arms, "engine ÷ best Python"]];
  for (const bReq of sizes) {
    const cells = arms.map((arm) => {
      const points = summary.points.filter((point) => point.arm === arm && point.bReq === bReq);
      const best = failedParity.has(arm) ? undefined : bestPoint(points, BUDGET_MS);
      if (best !== undefined) return Math.round(best.examplesPerS).toString();
      const leftOut = bestPoint(points, BUDGET_MS, { clientBound: true, errors: true });
      if (leftOut !== undefined) return `${Math.round(leftOut.examplesPerS)} *`;
      const slow = bestPoint(points, null, { clientBound: true, errors: true });
      return slow === undefined || slow.p99Ms === null
        ? "–"
        : `${Math.round(slow.examplesPerS)} (p99 ${Math.round(slow.p99Ms)} ms)`;
    });
    const budget = summary.budgets.find((item) => item.bReq === bReq && item.budgetMs === BUDGET_MS);
    const ratio = budget?.ratio ?? null;
    rows.push([String(bReq), ...cells, ratio === null ? "–" : `${ratio.toFixed(2)}×`]);
  }
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  lines.push(...rows.map((row) => row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join("  ")));
  if (lines.some((line) => line.includes("*"))) {
    lines.push("* client-bound, with errors or of an arm that failed parity: left out of comparisons");
  }
  for (const { arm, status, reason } of summary.arms ?? []) {
    if (status !== "ok") lines.push(`${arm} ${status}: ${reason ?? "no reason was recorded"}`);
  }
  return `${lines.join("\n")}\n`;
}
