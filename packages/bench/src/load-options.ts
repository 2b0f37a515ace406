import type { LoadMode, LoadOptions } from "@dlrm/loadgen";
import type { ModelSpec } from "@dlrm/model";
import { formatCpuList } from "./cpu-list.ts";
import type { Machine } from "./machine.ts";
import type { LoadStep } from "./plan.ts";
import type { BenchSettings } from "./settings.ts";

/** Options of the load generator that can cross to another process. */
export type LoadTask = Omit<LoadOptions, "onProgress" | "signal">;

/** Examples that are made before the run and cycled through: more than the caches of any CPU hold rows for. */
const MAX_POOL_EXAMPLES = 16_384;
/** Times that the pool looks up each row of small tables; more would only take longer to make. */
const LOOKUPS_PER_ROW = 8;

function poolExamples({ features }: ModelSpec): number {
  const rows = features.reduce((sum, feature) => sum + feature.vocabularySize, 0);
  const idsPerExample = features.reduce((sum, feature) => sum + feature.hotSize, 0);
  return Math.min(MAX_POOL_EXAMPLES, Math.max(1024, Math.ceil((rows * LOOKUPS_PER_ROW) / idsPerExample)));
}

export function loadTask(
  settings: BenchSettings,
  machine: Machine,
  spec: ModelSpec,
  step: Pick<LoadStep, "bReq" | "repeat">,
  mode: LoadMode,
  address: { readonly host: string; readonly port: number },
): LoadTask {
  return {
    ...address,
    model: spec.name,
    shape: {
      denseFeatures: spec.denseFeatures,
      features: spec.features.map(({ name, vocabularySize, hotSize }) => ({ name, vocabularySize, hotSize })),
    },
    requestSize: step.bReq,
    mode,
    connections: settings.connections,
    processes: settings.clientProcesses,
    warmupS: settings.warmupS,
    durationS: settings.durationS,
    // Every arm gets the same requests in the same repeat, and others in the next.
    seed: settings.seed + step.repeat - 1,
    idDistribution: settings.idDistribution,
    poolExamples: poolExamples(spec),
    ...(machine.taskset === undefined ? {} : { cpus: formatCpuList(settings.clientCpus) }),
  };
}
