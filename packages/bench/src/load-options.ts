import type { LoadOptions } from "@dlrm/loadgen";
import type { ModelSpec } from "@dlrm/model";
import { formatCpuList } from "./cpu-list.ts";
import type { Machine } from "./machine.ts";
import type { LoadStep } from "./plan.ts";
import type { BenchSettings } from "./settings.ts";

/** Options of the load generator that can cross to another process. */
export type LoadTask = Omit<LoadOptions, "onProgress" | "signal">;

export function loadTask(
  settings: BenchSettings,
  machine: Machine,
  spec: ModelSpec,
  step: Pick<LoadStep, "bReq" | "concurrency" | "repeat">,
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
    mode: { kind: "closed", concurrency: step.concurrency },
    connections: settings.connections,
    processes: settings.clientProcesses,
    warmupS: settings.warmupS,
    durationS: settings.durationS,
    // Every arm gets the same requests in the same repeat, and others in the next.
    seed: settings.seed + step.repeat - 1,
    idDistribution: settings.idDistribution,
    ...(machine.taskset === undefined ? {} : { cpus: formatCpuList(settings.clientCpus) }),
  };
}
