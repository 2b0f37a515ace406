import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { compareRuns } from "./compare-runs.ts";
import { renderComparison } from "./render-comparison.ts";
import { ReporterError } from "./reporter-error.ts";
import { readSummary, writeReportFiles } from "./summary-file.ts";

/** Fewer draws have no tails to read an interval from. */
const MIN_RESAMPLES = 100;

export interface CommandContext {
  readonly args: readonly string[];
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

/** `dlrm-report`. @returns the exit code: 0, 1 for a failure, 2 for wrong usage. */
export function runCommand({ args, stdout, stderr }: CommandContext): number {
  const program = new Command("dlrm-report").description("Works on the results of dlrm-bench.");
  // Subcommands inherit what is set before they are added.
  program
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ writeOut: stdout, writeErr: (text) => stderr(text.replace(/^error: /, "dlrm-report: ")) })
    .addHelpText(
      "after",
      "\nExample:\n  dlrm-report compare bench-work/results-before bench-work/results > COMPARISON.md",
    );
  program
    .command("compare")
    .description("Compares two runs: ratios with confidence intervals, and what changed in settings and environment.")
    .argument("<A>", "summary.json of a run, or its folder")
    .argument("<B>", "the run that is compared with it")
    .option("--format <name>", "markdown or json", oneOf("markdown", "json"), "markdown")
    .option("--confidence <share>", "of the intervals, over 0 and under 1", share, 0.95)
    .option("--resamples <count>", "draws of the bootstrap", wholeNumber(MIN_RESAMPLES), 2000)
    .option("--seed <number>", "of the bootstrap", wholeNumber(0), 1)
    .action((a: string, b: string, options: CompareOptions) => {
      const [from, to] = [readSummary(a), readSummary(b)];
      const comparison = compareRuns(from, to, options);
      stdout(
        options.format === "json"
          ? `${JSON.stringify(comparison, null, 2)}\n`
          : renderComparison(from, to, comparison, { a, b, confidence: options.confidence }),
      );
    });
  program
    .command("render")
    .description("Writes REPORT.md, report.html and charts/ of a run anew, from its summary.json.")
    .argument("<place>", "folder of the results, or summary.json")
    .option("--out <folder>", "where to; default the folder of summary.json")
    .action((place: string, { out }: { readonly out?: string }) => {
      const summary = readSummary(place);
      const folder = out ?? (statSync(place).isDirectory() ? place : path.dirname(place));
      stdout(`${writeReportFiles(summary, folder).join("\n")}\n`);
    });
  try {
    program.parse([...args], { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof ReporterError)) throw error;
    stderr(`dlrm-report: ${error.message}\n`);
    return 1;
  }
}

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

interface CompareOptions {
  readonly format: string;
  readonly confidence: number;
  readonly resamples: number;
  readonly seed: number;
}

function oneOf(...names: readonly string[]): (text: string) => string {
  return (text) => {
    if (names.includes(text)) return text;
    throw new InvalidArgumentError(`Expected one of ${names.join(", ")}.`);
  };
}

function share(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value > 0 && value < 1) return value;
  throw new InvalidArgumentError("Expected a number over 0 and under 1.");
}

function wholeNumber(min: number): (text: string) => number {
  return (text) => {
    if (/^\d{1,9}$/.test(text) && Number(text) >= min) return Number(text);
    throw new InvalidArgumentError(`Expected a whole number of at least ${min}.`);
  };
}
