import type { Arm } from "@dlrm/arm-contract";
import type { ModelSpec } from "@dlrm/model";
import { messageOf } from "./bench-error.ts";
import {
  cacheDir,
  denseNetworkCommandText,
  exportCommandText,
  HOST,
  loadCommandText,
  serverCommand,
} from "./commands.ts";
import type { Machine } from "./machine.ts";
import { describeStep, type Step } from "./plan.ts";
import { shellText } from "./shell-text.ts";
import type { BenchSettings } from "./settings.ts";
import { formatSeconds, TimeLeft } from "./time-left.ts";

export interface DryRunInput {
  readonly settings: BenchSettings;
  readonly machine: Machine;
  readonly spec: ModelSpec;
  readonly arms: readonly Arm[];
  readonly steps: readonly Step[];
  readonly bundleExists: boolean;
}

/** The whole plan as text: every step with its command, and how long all takes. */
export function renderDryRun(input: DryRunInput): string {
  const { steps } = input;
  const width = String(steps.length).length;
  const lines = steps.flatMap((step, index) => [
    `[${String(index + 1).padStart(width)}/${steps.length}] ${describeStep(step)} (about ${formatSeconds(step.estimateS)})`,
    `    ${commandOf(step, input)}`,
  ]);
  const total = formatSeconds(new TimeLeft(steps).from(0));
  return [...lines, "", `${steps.length} steps, about ${total}. Nothing was started.`, ""].join("\n");
}

function commandOf(step: Step, { settings, machine, spec, arms, bundleExists }: DryRunInput): string {
  switch (step.kind) {
    case "model":
      return bundleExists ? `# there already; else: ${exportCommandText(settings)}` : exportCommandText(settings);
    case "dense_network":
      return denseNetworkCommandText(settings, machine);
    case "prepare":
      return `# whatever ${step.arm} needs, once, in ${cacheDir(settings)}`;
    case "start": {
      const arm = arms.find(({ name }) => name === step.arm);
      return arm === undefined ? "# unknown arm" : startOf(arm, settings, machine);
    }
    case "parity":
      return `# gRPC Predict of ${step.bReq} examples to ${HOST}:PORT, int32 and int64 ids, against the reference forward`;
    case "load":
      return loadCommandText(settings, machine, spec, step);
    case "stop":
      return "kill -TERM PID";
    case "report":
      return `# ${settings.workDir}/results/REPORT.md, summary.json, env.txt`;
  }
}

function startOf(arm: Arm, settings: BenchSettings, machine: Machine): string {
  try {
    // A port that could not be mistaken for a real one.
    return shellText(serverCommand(settings, machine, arm, 65_535)).replace("65535", "PORT");
  } catch (error) {
    // Without a Python, say: a run skips the arm.
    return `# ${arm.name} cannot run here: ${messageOf(error)}`;
  }
}
