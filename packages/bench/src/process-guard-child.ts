/** The watcher of `ProcessGuard`: `+<pid>` and `-<pid>` lines on stdin; when it ends, what is left is killed. */
import { createInterface } from "node:readline";
import { signalGroup } from "./process-guard.ts";

const groups = new Set<number>();
// It must outlive the one it watches, also where a terminal signals the whole session.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const leaderPid = Number(line.slice(1));
  if (!Number.isInteger(leaderPid) || leaderPid <= 1) return;
  if (line.startsWith("+")) groups.add(leaderPid);
  else groups.delete(leaderPid);
});
lines.on("close", () => {
  for (const leaderPid of groups) signalGroup(leaderPid, "SIGKILL");
});
