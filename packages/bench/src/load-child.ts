/** The process of `LoadProcess`: options as JSON in its only argument, progress and result over the channel. */
import { runLoad } from "@dlrm/loadgen";
import { messageOf } from "./bench-error.ts";
import type { LoadTask } from "./load-options.ts";
import type { LoadMessage } from "./load-process.ts";

function tell(message: LoadMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) {
      // Run by hand: the result goes to the one who looks.
      if (message.kind !== "progress") console.log(JSON.stringify(message, null, 2));
      resolve();
    } else {
      process.send(message, () => resolve());
    }
  });
}

async function main(): Promise<void> {
  const options = JSON.parse(process.argv[2] ?? "{}") as LoadTask;
  try {
    const result = await runLoad({ ...options, onProgress: (progress) => void tell({ kind: "progress", progress }) });
    await tell({ kind: "result", result });
  } catch (error) {
    await tell({ kind: "error", message: messageOf(error) });
    process.exitCode = 1;
  }
  if (process.connected) process.disconnect();
}

await main();
