import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { readBundle } from "./bundle.ts";
import { bundleSummary } from "./bundle-summary.ts";
import { exportBundle } from "./export-bundle.ts";
import { ModelError } from "./model-error.ts";
import type { ModelSpec } from "./model-spec.ts";
import { PRESET_NAMES, presetSpec } from "./presets.ts";
import { ProgressLine, type ProgressOutput } from "./progress-line.ts";
import { verifyBundle } from "./verify-bundle.ts";

/** What the command writes to: standard output and standard error, or a test's own. */
export interface CommandOutput {
  readonly out: { write(text: string): unknown };
  readonly err: ProgressOutput;
}

interface ExportFlags {
  readonly preset?: string;
  readonly spec?: string;
  readonly out?: string;
  readonly maxVocabSize?: number;
  readonly seed: number;
  readonly modelVersion: string;
  readonly buckets?: readonly number[];
  readonly ifMissing?: true;
  readonly quiet?: true;
}

/** Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. */
export async function main(
  args: readonly string[],
  output: CommandOutput = { out: process.stdout, err: process.stderr },
  signal: AbortSignal = interruptSignal(),
): Promise<number> {
  try {
    await program(output, signal).parseAsync([...args], { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (signal.aborted) {
      output.err.write("interrupted; nothing is left behind\n");
      return 130;
    }
    output.err.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
    return error instanceof ModelError && (error.code === "invalid_option" || error.code === "invalid_spec") ? 2 : 1;
  }
}

function program({ out, err }: CommandOutput, signal: AbortSignal): Command {
  const command = new Command("dlrm-model")
    .description("Makes, checks and describes bundles: DLRM models on disk.")
    .version(packageVersion())
    .exitOverride()
    .configureOutput({ writeOut: (text) => out.write(text), writeErr: (text) => err.write(text) });

  const exporting: Command = command.command("export");
  exporting
    .description("make a bundle with seeded weights; the directory appears complete or not at all")
    .addOption(new Option("--preset <name>", "model to make").choices(PRESET_NAMES).conflicts("spec"))
    .option("--spec <file>", "JSON file with a model spec, instead of a preset")
    .option("--out <dir>", "directory to make; must not exist, or be empty (required)")
    .option("--max-vocab-size <rows>", "cap on the rows of every table of the preset", integer)
    .option("--seed <number>", "seed of the weights, 0 to 4294967295", integer, 1)
    .option("--model-version <text>", "version that model.json names", "1")
    .option(
      "--buckets <sizes>",
      "batch sizes of the StableHLO modules, e.g. 1,2,4 (default: powers of two 1 to 4096)",
      integers,
    )
    .option(
      "--if-missing",
      "succeed at once if the directory holds this very bundle (sizes, headers and samples are checked)",
    )
    .option("--quiet", "show no progress")
    .addHelpText("after", "\nExample:\n  dlrm-model export --preset dcnv2-smoke --out ./dcnv2-smoke")
    .action(async (flags: ExportFlags) => {
      // Not a required option: a missing one would be told before one that is misspelt, which may be the same.
      const { out: dir } = flags;
      if (dir === undefined) exporting.error("error: required option '--out <dir>' not specified");
      const spec = await specOf(flags);
      const progress = new ProgressLine(`writing ${dir}`, err);
      try {
        const bundle = await exportBundle({
          spec,
          seed: flags.seed,
          dir,
          version: flags.modelVersion,
          buckets: flags.buckets,
          existing: flags.ifMissing === true ? "reuse" : "refuse",
          onProgress: flags.quiet === true ? undefined : (at) => progress.update(at.writtenBytes, at.totalBytes),
          signal,
        });
        progress.clear();
        out.write(`${bundle.dir}: ${bundle.name}, seed ${bundle.seed}${bundle.reused ? ", was there already" : ""}\n`);
      } catch (error) {
        progress.clear();
        throw error;
      }
    });

  command
    .command("verify")
    .description("read every byte of a bundle and compare it with the hashes in its model.json")
    .argument("<dir>", "directory of the bundle")
    .option("--quiet", "show no progress")
    .action(async (dir: string, flags: { readonly quiet?: true }) => {
      const progress = new ProgressLine(`verifying ${dir}`, err);
      const onProgress = (at: { readBytes: number; totalBytes: number }): void =>
        progress.update(at.readBytes, at.totalBytes);
      try {
        const bundle = await verifyBundle(dir, { onProgress: flags.quiet === true ? undefined : onProgress, signal });
        progress.clear();
        out.write(`${bundle.dir}: every file is as model.json says\n`);
      } catch (error) {
        progress.clear();
        throw error;
      }
    });

  command
    .command("info")
    .description("describe the model of a bundle")
    .argument("<dir>", "directory of the bundle")
    .option("--json", "as JSON")
    .action(async (dir: string, flags: { readonly json?: true }) => {
      const bundle = await readBundle(dir);
      out.write(flags.json === true ? `${JSON.stringify(bundle, undefined, 2)}\n` : bundleSummary(bundle));
    });

  return command;
}

function packageVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}

async function specOf(flags: ExportFlags): Promise<ModelSpec> {
  if (flags.spec === undefined) {
    if (flags.preset === undefined) {
      throw new ModelError(
        "invalid_option",
        `one of --preset and --spec is needed; presets: ${PRESET_NAMES.join(", ")}`,
      );
    }
    return presetSpec(flags.preset, { maxVocabSize: flags.maxVocabSize });
  }
  if (flags.maxVocabSize !== undefined) {
    throw new ModelError("invalid_option", "--max-vocab-size caps a preset's tables; with --spec, change the file");
  }
  const text = await readFile(flags.spec, "utf8");
  try {
    // Validated by the export, which shows every problem.
    return JSON.parse(text) as ModelSpec;
  } catch (cause) {
    throw new ModelError("invalid_spec", `${flags.spec} is not JSON: ${String(cause)}`, { cause });
  }
}

function integer(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("expected a non-negative integer");
  return Number(text);
}

function integers(text: string): number[] {
  return text.split(",").map(integer);
}

/** Aborted by SIGINT or SIGTERM; a second one ends the process at once, as it would without a handler. */
function interruptSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => controller.abort());
  return controller.signal;
}
