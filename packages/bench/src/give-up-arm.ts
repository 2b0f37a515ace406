import { messageOf } from "./bench-error.ts";
import type { RunContext } from "./run-context.ts";
import { describeExit } from "./server-process.ts";

/** Ends the server of an arm that failed, and keeps why, with the last lines of its log. @param doing the step that failed. */
export async function giveUpArm(
  { dependencies, record, servers }: RunContext,
  arm: string,
  doing: string,
  error: unknown,
): Promise<void> {
  const { progress } = dependencies;
  const server = servers.running?.started.server;
  const exit = (await servers.stop())?.exit;
  const logTail = server?.logTail() ?? [];
  // Where the answer to a request told of the end before the process did.
  const crashed = exit?.kind === "code" && exit.code !== 0 && !messageOf(error).includes("the server ended");
  const reason = `${doing}: ${messageOf(error)}${crashed ? `; the server ended with ${describeExit(exit)}` : ""}`;
  record.findings.giveUp(arm, { status: "failed", reason, logTail });
  progress.note(`${arm} failed. ${reason}`);
  for (const line of logTail) progress.note(`  | ${line}`);
  record.writeJournal();
}
