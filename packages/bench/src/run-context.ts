import type { Arm } from "@dlrm/arm-contract";
import type { ArmRunner } from "./arm-runner.ts";
import type { BenchDependencies } from "./bench-dependencies.ts";
import type { ProcessGuard } from "./process-guard.ts";
import type { RunRecord } from "./run-record.ts";
import type { BenchSettings } from "./settings.ts";

/** What the steps of a run share. */
export interface RunContext {
  readonly settings: BenchSettings;
  readonly dependencies: BenchDependencies;
  /** Those that were asked for, in that order. */
  readonly arms: readonly Arm[];
  readonly record: RunRecord;
  readonly servers: ArmRunner;
  readonly guard: ProcessGuard;
}
