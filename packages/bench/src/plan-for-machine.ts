import { existsSync } from "node:fs";
import path from "node:path";
import type { Arm } from "@dlrm/arm-contract";
import { presetSpec } from "@dlrm/model";
import { bundleDir, cacheDir } from "./commands.ts";
import { Findings } from "./findings.ts";
import { readJournal } from "./journal.ts";
import { planRun, remainingSteps, type Step } from "./plan.ts";
import { resultsFolder } from "./results-dir.ts";
import { describeSettings } from "./run-description.ts";
import type { BenchSettings } from "./settings.ts";

/** The plan with what this machine holds already. */
export function planForMachine(settings: BenchSettings, arms: readonly Arm[]): Step[] {
  const spec = presetSpec(settings.preset, { maxVocabSize: settings.maxVocabSize });
  const rows = spec.features.reduce((sum, feature) => sum + feature.vocabularySize, 0);
  return planRun(settings, {
    bundleExists: existsSync(path.join(bundleDir(settings), "model.json")),
    tableBytes: rows * spec.embeddingDim * 4,
    cacheExists: existsSync(cacheDir(settings)),
    families: new Map(arms.map(({ name, family }) => [name, family])),
  });
}

/**
 * What `--resume` would do.
 *
 * @throws BenchError `usage` if there is no run to continue, or one with other settings.
 */
export function remainingPlan(settings: BenchSettings, arms: readonly Arm[]): Step[] {
  const findings = new Findings(arms);
  findings.restore(readJournal(resultsFolder(settings.workDir), describeSettings(settings)).findings);
  return remainingSteps(planForMachine(settings, arms), (step) => findings.isMeasured(step));
}
