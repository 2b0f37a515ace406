import type { DenseNetworkRow } from "@dlrm/reporter";
import type { BenchSettings } from "./settings.ts";

/** What is run on every device that takes the dense network on a CPU; plain data. */
export interface DenseNetworkTask {
  readonly bundleDir: string;
  /** As `--device`: `pjrt:PATH` names the plugin that is compared, too. */
  readonly device?: string;
  /** Examples of a batch; one of the bundle's buckets. */
  readonly batch: number;
  readonly numThreads: number;
  /** Turns of each device. */
  readonly rounds: number;
  /** Of the examples. */
  readonly seed: number;
}

/** What a comparison found. */
export interface DenseNetworkOutcome {
  readonly rows: readonly DenseNetworkRow[];
  /** What the reader of the rows should know. */
  readonly warnings: readonly string[];
}

const BATCH = 128;

/** A turn a repeat; devices that would choose their threads themselves get one for each CPU of the server. */
export function denseNetworkTask(bundleDir: string, settings: BenchSettings): DenseNetworkTask {
  const { device, numThreads, serverCpus, repeats, seed } = settings;
  return {
    bundleDir,
    ...(device === undefined ? {} : { device }),
    batch: BATCH,
    numThreads: numThreads > 0 ? numThreads : Math.max(1, serverCpus.length),
    rounds: repeats,
    seed,
  };
}
