import { accelerator } from "./accelerator-table.ts";
import { denseNetwork } from "./dense-network-table.ts";
import { formatBytes, formatCount, formatNumber, formatOptional } from "./format.ts";
import { bulletList, codeBlock, hasLineBreaks, left, oneLine, right, table } from "./markdown.ts";
import { noiseEvidence } from "./noise.ts";
import { errorCount } from "./point.ts";
import {
  closedLoop,
  cost,
  openLoop,
  otherBudgets,
  peaks,
  type ReportContext,
  smallestConcurrency,
  withinBudget,
} from "./report-tables.ts";
import type { Summary } from "./summary.ts";
import { armsThatFailedParity } from "./failed-parity.ts";

const NO_REASON = "No reason was recorded.";

export interface ReportOptions {
  /** Names of chart files beside the report, without `.light.svg` / `.dark.svg`, and what they show; default none. */
  readonly charts?: readonly { readonly file: string; readonly title: string }[];
}

/** REPORT.md of a run: GitHub Markdown. The same summary always gives the same text. */
export function renderReport(summary: Summary, options: ReportOptions = {}): string {
  const arms = [
    ...new Set([...(summary.arms ?? []).map((arm) => arm.arm), ...summary.points.map((point) => point.arm)]),
  ];
  const sizes = [...new Set(summary.points.map((point) => point.bReq))].sort((a, b) => a - b);
  const closed = summary.points.filter((point) => point.mode === "closed");
  const context: ReportContext = {
    summary,
    arms: arms.filter((arm) => summary.points.some((point) => point.arm === arm)),
    sizes,
    closed,
    failedParity: armsThatFailedParity(summary),
    label: summary.simulatedAccelerator ? ", *simulated accelerator*" : "",
  };
  const sections = [
    head(context),
    charts(options.charts ?? []),
    ...(closed.length === 0
      ? ["No point was measured."]
      : [
          withinBudget(context),
          otherBudgets(context),
          peaks(context),
          smallestConcurrency(context),
          closedLoop(context),
          openLoop(context),
          cost(context),
          accelerator(context),
        ]),
    denseNetwork(summary),
    parity(context),
    errors(context),
    failuresAndWarnings(context),
    metadata(context),
  ];
  return `${sections.filter((section) => section !== "").join("\n\n")}\n`;
}

function head({ summary }: ReportContext): string {
  const lines = [`# Benchmark: ${summary.preset} on ${summary.platform}`];
  if (summary.simulatedAccelerator) {
    lines.push(
      "> **Simulated accelerator.** The dense network ran on no real device: each batch kept a simulated one busy for " +
        "350 µs + 4 µs an example of the padded batch. What is compared is the cost of the host side, on real tables.",
    );
  }
  if (summary.interrupted === true) lines.push("> **Incomplete.** The run was stopped before its plan was done.");
  const noise = noiseEvidence(summary);
  if (noise.length > 0) {
    lines.push(
      `> **Noisy machine.** ${sentence(noise)} Another run may well give other values: measure on a quiet one.`,
    );
  }
  for (const arm of summary.arms ?? []) {
    if (arm.status === "ok") continue;
    lines.push(`> **${arm.arm} ${arm.status}.** ${oneLine(arm.reason ?? NO_REASON)}`);
  }
  lines.push(
    "Throughput is in examples/s. Values are medians of the repeats, with (smallest–largest) where there are several. " +
      "Errors, and sends that were dropped or late, are summed over them. Latency is measured by the client.",
  );
  return lines.join("\n\n");
}

function sentence(parts: readonly string[]): string {
  const joined = parts.join("; ");
  return `${joined.charAt(0).toUpperCase()}${joined.slice(1)}.`;
}

function charts(list: NonNullable<ReportOptions["charts"]>): string {
  return list
    .map(
      ({ file, title }) =>
        `<picture>\n  <source media="(prefers-color-scheme: dark)" srcset="${file}.dark.svg">\n` +
        `  <img alt="${title}" src="${file}.light.svg">\n</picture>`,
    )
    .join("\n\n");
}

function parity({ summary }: ReportContext): string {
  if (summary.parity.length === 0) return "## Parity\n\nNo arm was checked.";
  return [
    "## Parity",
    table(
      [left("arm"), right("B_req"), right("largest difference"), left("within 1e-4")],
      summary.parity.map((entry) => [
        entry.arm,
        String(entry.bReq),
        entry.maxAbsDiff === null ? "–" : entry.maxAbsDiff.toExponential(2),
        entry.ok ? "yes" : `**no**${entry.error === undefined ? "" : `: ${entry.error}`}`,
      ]),
    ),
    "Scores over the wire against a reference forward in float64 that shares no code with any arm; int32 and int64 ids.",
  ].join("\n\n");
}

function errors({ summary }: ReportContext): string {
  const rows = summary.points
    .filter((point) => errorCount(point) > 0)
    .flatMap((point) =>
      Object.entries(point.errors).map(([code, count]) => [
        point.arm,
        String(point.bReq),
        point.mode === "closed" ? `C ${point.concurrency}` : `${formatOptional(point.offeredRps)} requests/s`,
        code,
        formatCount(count),
      ]),
    );
  if (rows.length === 0) return summary.points.length === 0 ? "" : "## Errors\n\nNone.";
  return [
    "## Errors",
    table([left("arm"), right("B_req"), left("load"), left("error"), right("count, all repeats")], rows),
  ].join("\n\n");
}

function failuresAndWarnings({ summary }: ReportContext): string {
  const parts: string[] = [];
  const { warnings = [] } = summary;
  if (warnings.length > 0) parts.push(bulletList(warnings));
  for (const arm of summary.arms ?? []) {
    if (arm.status !== "ok") {
      const { reason = NO_REASON } = arm;
      parts.push(
        `### ${arm.arm}: ${arm.status}`,
        hasLineBreaks(reason) ? codeBlock(reason.trim(), "text") : oneLine(reason),
      );
      if (arm.logTail !== undefined && arm.logTail.length > 0) {
        parts.push("Last lines of its log:", codeBlock(arm.logTail.join("\n"), "text"));
      }
    }
    if (arm.warnings !== undefined && arm.warnings.length > 0) {
      if (arm.status === "ok") parts.push(`### ${arm.arm}`);
      parts.push(bulletList(arm.warnings));
    }
  }
  return parts.length === 0 ? "" : ["## Failures and warnings", ...parts].join("\n\n");
}

function metadata({ summary }: ReportContext): string {
  const { command, ...settings } = summary.settings;
  const parts = ["## Run"];
  if (command !== undefined) parts.push(codeBlock(command, "sh"));
  const armRows = (summary.arms ?? []).map((arm) => [arm.arm, arm.family, arm.title, arm.status]);
  if (armRows.length > 0) parts.push(table([left("arm"), left("family"), left("what it is"), left("status")], armRows));
  parts.push("### Settings", keyValues(settings), "### Environment", keyValues(summary.environment));
  return parts.join("\n\n");
}

function keyValues(values: Readonly<Record<string, unknown>>): string {
  const rows = Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, `${text(value)}${inUnits(key, value)}`]],
  );
  return rows.length === 0 ? "None recorded." : table([left("name"), left("value")], rows);
}

/** Of a number whose name ends in its unit, as people write it. */
function inUnits(name: string, value: unknown): string {
  if (typeof value !== "number") return "";
  if (name.endsWith("Bytes")) return ` (${formatBytes(value)})`;
  return name.endsWith("Fraction") ? ` (${formatNumber(value * 100)} %)` : "";
}

function text(value: unknown): string {
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (typeof value === "object" && value !== null) {
    return Object.entries(value)
      .map(([key, item]) => `${key} ${text(item)}`)
      .join(", ");
  }
  return String(value);
}
