import { describe, expect, it } from "vitest";
import { fixedSummary } from "../test/fixed-summary.ts";
import { renderReport } from "./render-report.ts";

describe("renderReport", () => {
  it("renders a fixed summary", async () => {
    const report = renderReport(fixedSummary(), { charts: [{ file: "charts/throughput", title: "Throughput" }] });
    await expect(report).toMatchFileSnapshot("../test/fixed-report.md");
  });

  it("labels every heading over measured values if the accelerator was simulated, and none otherwise", () => {
    const measured = /^## (?!Parity|Errors|Failures|Run).*$/gm;
    const simulated = renderReport(fixedSummary()).match(measured) ?? [];
    expect(simulated.length).toBeGreaterThanOrEqual(6);
    for (const heading of simulated) expect(heading).toMatch(/, \*simulated accelerator\*$/);
    const real = renderReport({ ...fixedSummary(), platform: "cpu", simulatedAccelerator: false });
    expect(real).not.toMatch(/simulated/i);
  });

  it("says that the machine was noisy, with the evidence", () => {
    const report = renderReport({ ...fixedSummary(), environment: { cpuCount: 2, loadAverageBefore: 8 } });
    expect(report).toContain("> **Noisy machine.** The load average was 8.00 before the first step.");
    expect(renderReport(fixedSummary())).not.toContain("Noisy");
  });

  it("tells of warnings of the whole run before those of its arms", () => {
    const report = renderReport({
      ...fixedSummary(),
      warnings: ["the dense network was not measured: no\nroom", "two"],
    });
    expect(report).toContain(
      "## Failures and warnings\n\n- the dense network was not measured: no room\n- two\n\n### engine-batch\n\n- did not",
    );
  });

  it("says what an empty, interrupted run has", () => {
    const report = renderReport({
      ...fixedSummary(),
      points: [],
      budgets: [],
      parity: [],
      interrupted: true,
      arms: [{ arm: "py", title: "Python", family: "python", status: "skipped", reason: "Python 3.11 is missing" }],
    });
    expect(report).toContain("**Incomplete.** The run was stopped before its plan was done.");
    expect(report).toContain("No point was measured.");
    expect(report).toContain("> **py skipped.** Python 3.11 is missing");
  });
});
