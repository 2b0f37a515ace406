import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { ArmPyError } from "./arm-py-error.ts";

const ERROR_LINES = 20;

export interface ToolCall {
  /** The command's name in errors. */
  readonly name: string;
  readonly file: string;
  readonly args: readonly string[];
  readonly signal: AbortSignal;
  /** Every line that it prints, as it comes. Default: nobody is told. */
  readonly onLine?: (line: string) => void;
}

/**
 * Runs a command to its end, line by line; what it said last is part of the error.
 *
 * @throws ArmPyError `install_failed`, or the signal's reason
 */
export async function runTool({ name, file, args, signal, onLine }: ToolCall): Promise<void> {
  const { PYTHONHOME: _home, PYTHONPATH: _path, ...env } = process.env;
  const child = spawn(file, args, { env, signal, stdio: ["ignore", "pipe", "pipe"] });
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      lastLines.push(line);
      if (lastLines.length > ERROR_LINES) {
        lastLines.shift();
      }
      onLine?.(line);
    });
  }
  const outcome = await new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, killedBy) => resolve(code === 0 ? "" : `exit code ${code ?? killedBy}`));
  });
  signal.throwIfAborted();
  if (outcome !== "") {
    throw new ArmPyError(
      "install_failed",
      [`${name} failed (${outcome}): ${file} ${args.join(" ")}`, ...lastLines].join("\n"),
    );
  }
}
