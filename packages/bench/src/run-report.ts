import { type Summary, validateSummary } from "@dlrm/reporter";
import { plain } from "./plain.ts";
import type { RunContext } from "./run-context.ts";
import { describeSettings } from "./run-description.ts";
import { describeRunEnvironment } from "./run-environment.ts";
import { writeReport } from "./write-report.ts";

export interface BenchOutcome {
  readonly summary: Summary;
  readonly reportFile: string;
  /** 0 if every arm was measured; 1 if one failed, or was named and cannot run here; 130 if the run was stopped. */
  readonly exitCode: number;
}

/** Writes what a run has found. @param finished whether the whole plan was done. */
export async function reportRun(context: RunContext, finished: boolean): Promise<BenchOutcome> {
  const { settings, dependencies, record } = context;
  const { progress, signal } = dependencies;
  const environment = await describeRunEnvironment(context);
  const summary = validateSummary(
    plain(
      record.findings.summary({
        platform: settings.platform,
        preset: settings.preset,
        simulatedAccelerator: settings.platform === "sim",
        environment,
        settings: describeSettings(settings),
        finished,
      }),
    ),
  );
  record.writeJournal();
  const reportFile = writeReport(record.results, summary);
  if (!finished) progress.note("stopped before the plan was done: the same command with --resume goes on");
  progress.end();
  const bad = (summary.arms ?? []).some(
    ({ status }) => status === "failed" || (status === "skipped" && settings.armsNamed),
  );
  const exitCode = signal.aborted ? 130 : bad || summary.points.length === 0 ? 1 : 0;
  return { summary, reportFile, exitCode };
}
