import type { SummaryEnvironment } from "@dlrm/reporter";

/** What numbers that stand side by side should have in common. Not the memory, of which a kernel keeps more or less. */
const DECISIVE = [
  "gitCommit",
  "node",
  "kernel",
  "cpuModel",
  "cpuInstructionSets",
  "cpuCount",
  "pjrtPluginPath",
] as const;

/** What of it was one thing `before` and is another thing `now`, in words. */
export function machineChanges(before: SummaryEnvironment, now: SummaryEnvironment): string[] {
  return DECISIVE.flatMap((name) =>
    before[name] === now[name] ? [] : [`${name}: it was ${before[name] ?? "unknown"}, now ${now[name] ?? "unknown"}`],
  );
}
