import { messageOf } from "./bench-error.ts";
import type { TaskMessage } from "./task-process.ts";

/** All that the process of a `TaskProcess` does: the task is JSON in its only argument, what it tells goes over the channel. */
export async function runTask(
  work: (task: never, tellProgress: (progress: unknown) => void) => Promise<unknown>,
): Promise<void> {
  const tell = (message: TaskMessage<unknown, unknown>): Promise<void> =>
    new Promise((resolve) => {
      if (process.send === undefined) {
        // Run by hand: the result goes to the one who looks.
        if (message.kind !== "progress") console.log(JSON.stringify(message, null, 2));
        resolve();
      } else {
        process.send(message, () => resolve());
      }
    });
  const task = JSON.parse(process.argv[2] ?? "{}") as never;
  try {
    const result = await work(task, (progress) => void tell({ kind: "progress", progress }));
    await tell({ kind: "result", result });
  } catch (error) {
    await tell({ kind: "error", message: messageOf(error) });
    process.exitCode = 1;
  }
  if (process.connected) process.disconnect();
}
