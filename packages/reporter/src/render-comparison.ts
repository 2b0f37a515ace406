import { MIN_INTERVAL_VALUES, type RatioInterval } from "./bootstrap.ts";
import { chanceRate } from "./chance-rate.ts";
import { isDifferent, type PointComparison, type RunComparison } from "./compare-runs.ts";
import { formatNumber, formatOptional, formatRatio } from "./format.ts";
import { left, right, table } from "./markdown.ts";
import { noiseEvidence } from "./noise.ts";
import { flawsOf } from "./point.ts";
import { median } from "./statistics.ts";
import type { Summary } from "./summary.ts";
import { armsThatFailedParity } from "./failed-parity.ts";

/** Open loops whose offered rates are further apart than this were not under the same load. */
const MAX_RATE_DIFFERENCE = 0.05;

export interface ComparisonNames {
  /** What the reader knows the runs by; default A and B. */
  readonly a: string;
  readonly b: string;
  readonly confidence?: number;
}

/** A comparison as Markdown. */
export function renderComparison(a: Summary, b: Summary, comparison: RunComparison, names: ComparisonNames): string {
  const { confidence = 0.95 } = names;
  const simulated = a.simulatedAccelerator || b.simulatedAccelerator;
  const sections = [
    `# Two runs compared${simulated ? ", *simulated accelerator*" : ""}`,
    `- A: ${names.a} (${a.preset} on ${a.platform})\n- B: ${names.b} (${b.preset} on ${b.platform})`,
    noise("A", a),
    noise("B", b),
    changes(comparison),
    budgets(comparison),
    points(comparison, confidence, (point) => flawsText(point, armsThatFailedParity(a), armsThatFailedParity(b))),
    only("A", comparison.onlyA),
    only("B", comparison.onlyB),
  ];
  return `${sections.filter((section) => section !== "").join("\n\n")}\n`;
}

function noise(name: string, summary: Summary): string {
  const evidence = noiseEvidence(summary);
  return evidence.length === 0 ? "" : `> **${name} ran on a noisy machine:** ${evidence.join("; ")}.`;
}

function changes({ changes: list }: RunComparison): string {
  if (list.length === 0) return "## What changed\n\nNothing in settings and environment.";
  const rows = list.map(({ of, name, a, b }) => [of, name, a, b]);
  return `## What changed\n\n${table([left("of"), left("name"), left("A"), left("B")], rows)}`;
}

function budgets({ budgets: list }: RunComparison): string {
  if (list.length === 0) return "";
  const rows = list.map(({ bReq, budgetMs, a, b }) => [
    String(bReq),
    `${budgetMs} ms`,
    formatRatio(a.ratio),
    formatRatio(b.ratio),
    a.ratio === null || b.ratio === null || a.ratio === 0 ? "–" : formatRatio(b.ratio / a.ratio),
  ]);
  return `## Engine ÷ best Python\n\n${table([right("B_req"), right("p99 ≤"), right("A"), right("B"), right("B ÷ A")], rows)}`;
}

function points({ points: list }: RunComparison, confidence: number, note: (point: PointComparison) => string): string {
  if (list.length === 0) return "## Points\n\nThe runs have no point in common.";
  const rows = list.map((point) => {
    const { arm, bReq, a, b, examplesPerS, p99Ms, cpuMicros } = point;
    return [
      String(bReq),
      arm,
      loadText(point),
      formatNumber(a.examplesPerS),
      formatNumber(b.examplesPerS),
      interval(examplesPerS),
      formatOptional(a.p99Ms),
      formatOptional(b.p99Ms),
      interval(p99Ms),
      interval(cpuMicros),
      note(point),
    ];
  });
  const columns = [
    right("B_req"),
    left("arm"),
    left("load"),
    right("A examples/s"),
    right("B examples/s"),
    right("B ÷ A"),
    right("A p99 ms"),
    right("B p99 ms"),
    right("B ÷ A"),
    right("CPU B ÷ A"),
    left("note"),
  ];
  const apart = list
    .filter(hasSameRates)
    .map(({ examplesPerS }) => (examplesPerS === null ? null : Math.abs(Math.log(examplesPerS.ratio))))
    .filter((value) => value !== null);
  return [
    "## Points",
    agreement(apart) + otherRates(list),
    table(columns, rows),
    `B ÷ A are ratios of medians with a bootstrap confidence interval (${percent(confidence)}) over the repeats; bold ` +
      `where it leaves out 1×. ${chances(list, confidence)}The interval knows only what differs between repeats of one run: ` +
      "compare runs of one hour and machine, with as many repeats as you can.",
  ].join("\n\n");
}

/** What was offered is part of an open loop's load: a share of the peak is another rate where the peak is another. */
function loadText({ load, a, b }: PointComparison): string {
  if (a.offeredRps === null || b.offeredRps === null) return load;
  return `${load}, requests/s: A ${formatNumber(a.offeredRps)}, B ${formatNumber(b.offeredRps)}`;
}

function hasSameRates({ a, b }: PointComparison): boolean {
  if (a.offeredRps === null || b.offeredRps === null) return true;
  return Math.abs(b.offeredRps / a.offeredRps - 1) <= MAX_RATE_DIFFERENCE;
}

function otherRates(list: readonly PointComparison[]): string {
  const count = list.filter((point) => !hasSameRates(point)).length;
  return count === 0
    ? ""
    : ` Left out of that: ${count} of the open loop, whose offered rates differ by more than ${percent(MAX_RATE_DIFFERENCE)}.`;
}

function flawsText({ a, b }: PointComparison, failedInA: ReadonlySet<string>, failedInB: ReadonlySet<string>): string {
  const side = (name: string, flaws: readonly string[]): string =>
    flaws.length === 0 ? "" : `${name}: ${flaws.join(", ")}`;
  return [side("A", flawsOf(a, failedInA)), side("B", flawsOf(b, failedInB))].filter((text) => text !== "").join("; ");
}

/** How many bold ratios chance alone makes, with the numbers of repeats that the runs have. */
function chances(list: readonly PointComparison[], confidence: number): string {
  const counts = new Map(list.map(({ a, b }) => [`${a.repeats.length} and ${b.repeats.length}`, { a, b }]));
  return [...counts]
    .map(([name, { a, b }]) => {
      if (Math.min(a.repeats.length, b.repeats.length) < MIN_INTERVAL_VALUES) {
        return `${name} repeats are too few for an interval. `;
      }
      const rate = chanceRate(a.repeats.length, b.repeats.length, confidence);
      return rate === null
        ? `How often that is chance with ${name} repeats depends on how they spread. `
        : `With ${name} repeats, ${percent(rate, 3)} of the ratios of runs that do not differ are bold by chance. `;
    })
    .join("");
}

/** As it is, not in whole percents: 99.5 % must not be 100 %. */
function percent(share: number, digits = 12): string {
  return `${Number((share * 100).toPrecision(digits))} %`;
}

/** How far apart the runs are as a whole: 10 % is what two runs of one command should stay within. */
function agreement(logRatios: readonly number[]): string {
  const middle = median(logRatios);
  if (middle === null) return "No point has a throughput in both.";
  const within = logRatios.filter((value) => value <= Math.log(1.1)).length;
  return (
    `Throughput differs by ${((Math.exp(middle) - 1) * 100).toFixed(1)} % at the median of the points; ` +
    `${within} of ${logRatios.length} are within 10 %.`
  );
}

function interval(value: RatioInterval | null): string {
  if (value === null) return "–";
  const text =
    value.low === null || value.high === null
      ? formatRatio(value.ratio)
      : `${formatRatio(value.ratio)} (${formatNumber(value.low)}–${formatNumber(value.high)})`;
  return isDifferent(value) ? `**${text}**` : text;
}

function only(name: string, list: readonly string[]): string {
  return list.length === 0 ? "" : `## Only in ${name}\n\n${list.map((item) => `- ${item}`).join("\n")}`;
}
