import { type ChildProcess, spawn } from "node:child_process";

/** A program that prints a line for each reading, for as long as it runs. */
export interface LineCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/**
 * Runs a program beside and hands on its lines. One that cannot be started, or ends, just gives no more lines: what it would
 * tell is then not there. It ends with this process or with `close`.
 */
export class LineSource {
  readonly #child: ChildProcess;

  constructor({ file, args }: LineCommand, onLine: (line: string) => void) {
    const child = spawn(file, [...args], { stdio: ["ignore", "pipe", "ignore"] });
    this.#child = child;
    let rest = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) onLine(line);
    });
    child.on("error", () => undefined);
    // What is watched must not wait for its watcher.
    child.unref();
    (child.stdout as unknown as { unref?: () => void } | null)?.unref?.();
  }

  close(): void {
    this.#child.kill("SIGKILL");
  }
}
