import { describe, expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { renderReport } from "./render-report.ts";
import type { Point } from "./summary.ts";

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

  it("keeps a reason of several lines in one quote and as it stands below, and shows what looks like HTML", () => {
    const reason = "ended with code 1:\nFile <stdin>\n\n# no heading";
    const report = renderReport({
      ...fixedSummary(),
      warnings: ["no <device>"],
      arms: [{ arm: "py", title: "Python", family: "python", status: "failed", reason }],
    });
    expect(report).toContain("\n\n> **py failed.** ended with code 1: File \\<stdin> # no heading\n\n");
    expect(report).toContain(`- no \\<device>\n\n### py: failed\n\n\`\`\`text\n${reason}\n\`\`\`\n\n## Run`);
  });

  it("notes dropped sends, and does not without", () => {
    const { points } = fixedSummary();
    const open = points.find((point) => point.mode === "open") as Point;
    const row = (dropped: number): string | undefined => {
      const changed = [...points.filter((point) => point.mode === "closed"), { ...open, dropped }];
      return /^\| 1 \| engine \| 50 % .*$/m.exec(renderReport({ ...fixedSummary(), points: changed }))?.[0];
    };
    expect(row(4)).toMatch(/\| 4 \| 8 \| 0 \| sends dropped, 2 of 3 repeats \|$/);
    expect(row(0)).toMatch(/\| 0 \| 8 \| 0 \| 2 of 3 repeats \|$/);
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

it("says at a point that it has fewer repeats than were asked for", () => {
  const summary = fixedSummary();
  const points = [closedPoint("engine", 1, 1, [2000, 2100]), closedPoint("py", 1, 1, [700, 710, 690])];
  const report = renderReport({ ...summary, points });
  expect(report).toMatch(/\| 1 \| 1 \| engine \| 2,050 .* \| 2 of 3 repeats \|/);
  expect(report.match(/of 3 repeats/g)).toHaveLength(1);
  const { repeats: _, ...settings } = summary.settings;
  expect(renderReport({ ...summary, points, settings })).not.toMatch(/of \d repeats/);
});

it("writes bytes and shares of the environment as people do", () => {
  const summary = fixedSummary();
  const environment = { memoryBytes: 25_276_502_016, stealFraction: 0.0032, cpuCount: 2 };
  const report = renderReport({ ...summary, environment });
  expect(report).toContain(
    "| memoryBytes | 25276502016 (23.54 GiB) |\n| stealFraction | 0.0032 (0.320 %) |\n| cpuCount | 2 |\n",
  );
});
