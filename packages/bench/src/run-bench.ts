import type { BenchDependencies } from "./bench-dependencies.ts";
import { BenchRun } from "./bench-run.ts";
import { readJournal } from "./journal.ts";
import { requireArms } from "./require-arms.ts";
import { resultsFolder } from "./results-dir.ts";
import { describeSettings } from "./run-description.ts";
import type { BenchOutcome } from "./run-report.ts";
import type { BenchSettings } from "./settings.ts";
import { takeWorkDir } from "./work-dir.ts";

/**
 * Runs the whole plan and writes the results. An arm that fails is given up, the others go on.
 *
 * @throws BenchError `usage` if another run has the work_dir, it cannot be written or holds no run to continue, or this machine lacks
 *   the device; `prepare_failed` if there is no model to serve, or it can run no arm; errors of the file system where results go.
 */
export async function runBench(settings: BenchSettings, dependencies: BenchDependencies): Promise<BenchOutcome> {
  // First, so that what is asked for and cannot be makes no folder, and moves no earlier results.
  if (settings.resume) readJournal(resultsFolder(settings.workDir), describeSettings(settings));
  await requireArms(settings, dependencies.arms);
  const giveBack = takeWorkDir(settings.workDir);
  try {
    const run = new BenchRun(settings, dependencies, await dependencies.describeMachine());
    try {
      await run.all();
    } finally {
      await run.close();
    }
    return await run.report();
  } finally {
    giveBack();
  }
}
