import type { Arm } from "@dlrm/arm-contract";
import type { Bundle } from "@dlrm/model";
import type { SummaryEnvironment } from "@dlrm/reporter";
import type { MeasureDenseNetwork } from "./dense-network-process.ts";
import type { Machine } from "./machine.ts";
import type { Measure } from "./measure.ts";
import type { Reference } from "./parity-check.ts";
import type { Progress } from "./progress.ts";
import type { BenchSettings } from "./settings.ts";

/** What a run works with; the command passes the real things, tests doubles of some. */
export interface BenchDependencies {
  /** Every known arm. */
  readonly arms: readonly Arm[];
  readonly machine: Machine;
  readonly progress: Progress;
  /** Stops the run; what was found until then is reported. */
  readonly signal: AbortSignal;
  readonly measure: Measure;
  /** Compares the devices that run the dense network on this CPU; its failure is no failure of the run. */
  readonly measureDenseNetwork: MeasureDenseNetwork;
  /** Makes the bundle at `bundleDir(settings)` if it isn't there. */
  readonly prepareBundle: (settings: BenchSettings, progress: Progress, signal: AbortSignal) => Promise<Bundle>;
  readonly openReference: (bundle: Bundle) => Promise<Reference>;
  /** The machine and the code that runs on it, before anything is measured. */
  readonly describeMachine: () => Promise<SummaryEnvironment>;
  /** The same at the end, and versions of what arms use; `python` is the interpreter of a Python arm, if one was prepared. */
  readonly describeEnvironment: (python: string | undefined) => Promise<SummaryEnvironment>;
  /** Moves the bench itself off the servers' CPUs; called before the first server starts. Returns why it could not, if so. */
  readonly leaveServerCpus: (settings: BenchSettings) => string | undefined;
  /** Milliseconds that a server may take to end after SIGTERM. */
  readonly drainMs: number;
}
