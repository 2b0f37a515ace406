import type { SummarySettings } from "@dlrm/reporter";
import { benchCommandText } from "./commands.ts";
import { formatCpuList } from "./cpu-list.ts";
import type { Machine } from "./machine.ts";
import type { BenchSettings } from "./settings.ts";

/** Settings as the summary has them: without what only says where files lie. */
export function describeSettings(settings: BenchSettings): SummarySettings {
  const { workDir: _, dryRun: __, resume: ____, armsNamed: ___, serverCpus, clientCpus, ...rest } = settings;
  return {
    command: benchCommandText(settings),
    ...rest,
    serverCpus: formatCpuList(serverCpus),
    clientCpus: formatCpuList(clientCpus),
  };
}

/** Why server and client may have taken CPU from each other, if they may. */
export function pinningProblem({ serverCpus, clientCpus }: BenchSettings, { taskset }: Machine): string | undefined {
  if (taskset === undefined) {
    return "nothing was pinned, since there is no taskset: server and load generator shared all CPUs";
  }
  const shared = serverCpus.filter((cpu) => clientCpus.includes(cpu));
  if (shared.length === 0) return undefined;
  return `server and load generator shared the CPUs ${formatCpuList(shared)}: what one of them used, the other one had not`;
}

/** What was pinned where, in words. */
export function describePinning({ serverCpus, clientCpus }: BenchSettings, { taskset }: Machine): string {
  if (taskset === undefined) return "none, since there is no taskset";
  const shared = serverCpus.some((cpu) => clientCpus.includes(cpu)) ? "; they share CPUs" : "";
  return `server on ${formatCpuList(serverCpus)}, client on ${formatCpuList(clientCpus)}, each thread checked${shared}`;
}
