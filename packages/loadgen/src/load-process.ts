/** Entry file of a load process: does its share of a run and reports to its parent. */
import { availableParallelism } from "node:os";
import v8 from "node:v8";
import { LatencyHistogram } from "./latency-histogram.ts";
import { LoadError, messageOf } from "./load-error.ts";
import { LoadShare, type ShareProgress } from "./load-share.ts";
import type { FromProcess, ToProcess } from "./process-messages.ts";

// With one CPU the collector's helper threads only keep the loop from running, and answers from being seen when they come.
if (availableParallelism() === 1) {
  v8.setFlagsFromString("--no-parallel-scavenge");
  v8.setFlagsFromString("--no-concurrent-marking");
}

let share: LoadShare | undefined;

function tell(message: FromProcess): void {
  if (process.connected) process.send?.(message);
}

async function handle(message: ToProcess): Promise<void> {
  if (message.kind === "prepare") {
    await LatencyHistogram.prepare();
    share = await LoadShare.prepare(message.options, message.share);
    tell({ kind: "ready", poolBytes: share.pool.bytes, poolRequests: share.pool.requests });
    return;
  }
  if (share === undefined) throw new LoadError("process_failed", "run before prepare");
  const onProgress = message.progress
    ? (progress: ShareProgress): void => tell({ kind: "progress", progress })
    : undefined;
  tell({ kind: "done", report: await share.run(message.startMicros, onProgress) });
}

process.on("message", (message: ToProcess) => {
  handle(message).catch((error: unknown) => {
    const code = error instanceof LoadError ? error.code : "process_failed";
    tell({ kind: "failed", code, message: messageOf(error) });
  });
});

// A parent that is gone, however it ended, leaves no load behind.
process.on("disconnect", () => process.exit(0));

// Ctrl-C goes to every process of the terminal; the parent decides what it means.
process.on("SIGINT", () => {});

tell({ kind: "up" });
