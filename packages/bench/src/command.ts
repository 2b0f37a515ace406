import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Arm } from "@dlrm/arm-contract";
import { PRESET_NAMES, presetSpec } from "@dlrm/model";
import { Command, CommanderError } from "commander";
import type { BenchDependencies } from "./bench-dependencies.ts";
import { BenchError, messageOf } from "./bench-error.ts";
import { bundleDir } from "./commands.ts";
import { renderDryRun } from "./dry-run.ts";
import { FLAGS, type FlagValues, withUnderscores } from "./flags.ts";
import { renderHeadline } from "./headline.ts";
import type { Machine } from "./machine.ts";
import type { Progress } from "./progress.ts";
import { planForMachine, remainingPlan } from "./plan-for-machine.ts";
import { runBench } from "./run-bench.ts";
import { resolveSettings } from "./settings.ts";
import { checkWorkDir } from "./work-dir.ts";

export interface CommandContext {
  readonly args: readonly string[];
  readonly currentDir: string;
  readonly arms: readonly Arm[];
  readonly machine: Machine;
  readonly progress: Progress;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly signal: AbortSignal;
  /** The rest of what a run works with. */
  readonly dependencies: Omit<BenchDependencies, "arms" | "machine" | "progress" | "signal">;
}

/** `dlrm-bench`. @returns the exit code: 0, 1 for a failure, 2 for wrong usage, 130 when it was stopped. */
export async function runCommand(context: CommandContext): Promise<number> {
  const { machine, arms, progress, signal, stdout, stderr } = context;
  const program = benchProgram(context);
  try {
    program.parse(withUnderscores(context.args), { from: "user" });
    const settings = resolveSettings(program.opts<FlagValues>(), {
      machine,
      arms,
      presets: PRESET_NAMES,
      currentDir: context.currentDir,
    });
    if (settings.dryRun) {
      checkWorkDir(settings.workDir);
      const chosen = arms.filter(({ name }) => settings.arms.includes(name));
      stdout(
        renderDryRun({
          settings,
          machine,
          arms: chosen,
          spec: presetSpec(settings.preset, { maxVocabSize: settings.maxVocabSize }),
          steps: settings.resume ? remainingPlan(settings, chosen) : planForMachine(settings, chosen),
          bundleExists: existsSync(path.join(bundleDir(settings), "model.json")),
        }),
      );
      return 0;
    }
    const outcome = await runBench(settings, {
      ...context.dependencies,
      arms,
      machine,
      progress,
      signal,
    });
    stdout(`\n${renderHeadline(outcome.summary)}\n${outcome.reportFile}\n`);
    return outcome.exitCode;
  } catch (error) {
    progress.end();
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    stderr(`dlrm-bench: ${messageOf(error)}\n`);
    if (!(error instanceof BenchError)) return 1;
    return error.code === "usage" ? 2 : error.code === "interrupted" ? 130 : 1;
  }
}

function benchProgram({ stdout, stderr }: CommandContext): Command {
  const program = new Command("dlrm-bench")
    .description(
      "Measures servers of ranking models against each other: makes the model, starts each server, checks its scores, " +
        "loads it, and writes REPORT.md and summary.json. Flags take hyphens for underscores.",
    )
    .helpOption("-h, --help", "show this help")
    .version(packageVersion(), "-V, --version", "show the version")
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ writeOut: stdout, writeErr: (text) => stderr(text.replace(/^error: /, "dlrm-bench: ")) })
    .addHelpText(
      "after",
      "\nExample:\n  dlrm-bench --platform sim --arms engine,py --concurrencies 1,16 --request_batch_sizes 1,16,128 --duration 5",
    );
  for (const { name, argument, help } of FLAGS) {
    program.option(argument === undefined ? `--${name}` : `--${name} <${argument}>`, help);
  }
  return program;
}

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
