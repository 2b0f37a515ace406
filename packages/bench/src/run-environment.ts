import type { Arm } from "@dlrm/arm-contract";
import type { SummaryEnvironment } from "@dlrm/reporter";
import { messageOf } from "./bench-error.ts";
import { serverCommand } from "./commands.ts";
import { stealFraction } from "./cpu-ticks.ts";
import { loadAverage } from "./environment.ts";
import { machineChanges } from "./machine-changes.ts";
import type { RunContext } from "./run-context.ts";
import { describePinning } from "./run-description.ts";

/** The environment of a whole run, at its end; what changed while it went on is a warning. */
export async function describeRunEnvironment(context: RunContext): Promise<SummaryEnvironment> {
  const { settings, dependencies, record } = context;
  const { machine } = dependencies;
  const steal = stealFraction(record.ticksUntilNow());
  const { startedAt, resumedAt, loadAverageBefore, machine: atStart } = record.beginning;
  return {
    startedAt,
    ...(resumedAt.length === 0 ? {} : { resumedAt }),
    finishedAt: new Date().toISOString(),
    ...(await describeEnd(context)),
    // A commit that came meanwhile is not what was measured.
    ...atStart,
    taskset: machine.taskset ?? "not there",
    pinning: describePinning(settings, machine),
    loadAverageBefore,
    loadAverageAfter: loadAverage(),
    ...(steal === undefined ? {} : { stealFraction: Math.round(steal * 1e4) / 1e4 }),
  };
}

async function describeEnd(context: RunContext): Promise<SummaryEnvironment> {
  const { dependencies, record } = context;
  try {
    const now = await dependencies.describeEnvironment(pythonOf(context));
    const changes = machineChanges(record.found, now);
    if (changes.length > 0) record.warn(`changed while the run went on: ${changes.join("; ")}`);
    return now;
  } catch (error) {
    record.warn(`the environment is not known in whole: ${messageOf(error)}`);
    return {};
  }
}

/** The interpreter of the first Python arm that was not given up. */
function pythonOf({ settings, dependencies, arms, record }: RunContext): string | undefined {
  const isUsed = ({ name, family }: Arm): boolean => family === "python" && !record.findings.gaveUp(name);
  const arm = arms.find(isUsed);
  if (arm === undefined) return undefined;
  try {
    return serverCommand(settings, { ...dependencies.machine, taskset: undefined }, arm, 0).file;
  } catch {
    // Stopped before it was looked for, where there is no Python.
    return undefined;
  }
}
