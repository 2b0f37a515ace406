import { BenchError, messageOf } from "./bench-error.ts";
import { describeStep, type LoadStep, type ParityStep } from "./plan.ts";
import type { RunContext } from "./run-context.ts";

/**
 * Does what failed once more, with a new server if the old one ended; failing again is the arm's end. Scores that are wrong are
 * no failure of that kind, and neither are results that cannot be written.
 *
 * @param done what is done, as a participle.
 */
export async function onceMore(
  { dependencies, record, servers }: RunContext,
  step: LoadStep | ParityStep,
  done: string,
  work: () => Promise<void>,
): Promise<void> {
  const { progress, signal } = dependencies;
  try {
    await work();
  } catch (error) {
    const lasts = error instanceof BenchError && (error.code === "results_failed" || error.code === "parity_failed");
    if (signal.aborted || lasts) throw error;
    const { arm, started } = servers.current();
    const warning = `failed once and was ${done} again: ${describeStep(step)}: ${messageOf(error)}`;
    record.findings.warn(arm.name, warning);
    progress.note(`  ${warning}`);
    for (const line of started.server.logTail()) progress.note(`  | ${line}`);
    if (started.server.ended !== undefined) {
      await servers.stop();
      await servers.start(arm, step.repeat);
    }
    await work();
  }
}
