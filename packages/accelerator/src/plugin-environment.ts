import path from "node:path";
import { readTpuChips, tpuVariables } from "./tpu-topology.ts";

export function isTpuPlugin(pluginPath: string): boolean {
  return /^libtpu.*\.so/.test(path.basename(pluginPath));
}

/** The variables a plugin should see beyond those of the process, which win. */
export function pluginEnvironment(
  pluginPath: string,
  numThreads: number | undefined,
  env: NodeJS.ProcessEnv = process.env,
  tpuChips: () => readonly string[] = readTpuChips,
): Record<string, string> {
  return {
    // XLA's CPU plugin makes as many threads; others ignore it.
    ...(numThreads === undefined ? {} : { PJRT_NPROC: String(numThreads) }),
    ...(isTpuPlugin(pluginPath) ? tpuVariables(tpuChips(), env) : {}),
  };
}
