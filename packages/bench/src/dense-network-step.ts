import { BenchError, messageOf } from "./bench-error.ts";
import { bundleDir } from "./commands.ts";
import { denseNetworkTask } from "./dense-network-task.ts";
import type { RunContext } from "./run-context.ts";

/** Compares the devices of this CPU; if that fails, the report has a warning and the run goes on. */
export async function compareDevices({ settings, dependencies, record, guard }: RunContext): Promise<void> {
  const { measureDenseNetwork, machine, progress, signal } = dependencies;
  try {
    const outcome = await measureDenseNetwork({
      task: denseNetworkTask(bundleDir(settings), settings),
      cpus: settings.serverCpus,
      taskset: machine.taskset,
      guard,
      logFile: record.results.path("dense-network.log"),
      signal,
      onProgress: (doing) => progress.update(doing),
    });
    record.findings.setDenseNetwork(outcome);
    for (const warning of outcome.warnings) progress.note(`  ${warning}`);
  } catch (error) {
    if (signal.aborted || (error instanceof BenchError && error.code === "results_failed")) throw error;
    const warning = `the dense network on this CPU was not measured: ${messageOf(error)}`;
    record.findings.setDenseNetwork({ rows: [], warnings: [warning] });
    progress.note(`  ${warning}`);
  }
  record.writeJournal();
}
