import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { root } from "./workspace.mts";

/** Every command of the packages, and its source. */
const commands = readdirSync(path.join(root, "packages")).flatMap((name) => {
  if (name === "arms") return [];
  const folder = path.join(root, "packages", name);
  const { bin = {} } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8")) as {
    bin?: Record<string, string>;
  };
  return Object.keys(bin).map((command) => ({ command, cli: path.join(folder, "src/cli.ts") }));
});

/** The writing end of a pipe that nobody reads any more, as after `| head`. */
function brokenPipe(): number {
  const folder = mkdtempSync(path.join(tmpdir(), "dlrm-commands-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const fifo = path.join(folder, "pipe");
  execFileSync("mkfifo", [fifo]);
  const reader = openSync(fifo, "r+");
  const writer = openSync(fifo, "w");
  closeSync(reader);
  return writer;
}

it("finds the commands", () => {
  const names = commands.map(({ command }) => command).toSorted();
  expect(names).toEqual(["dlrm-bench", "dlrm-embedding", "dlrm-loadgen", "dlrm-model", "dlrm-report", "dlrm-serve"]);
});

it.runIf(process.platform !== "win32").each(commands)(
  "$command ends well when the reader of its output has ended first",
  ({ cli }) => {
    const writer = brokenPipe();
    const args = ["--conditions=@dlrm/source", "--no-warnings", cli, "--help"];
    const { status, stderr } = spawnSync(process.execPath, args, {
      stdio: ["ignore", writer, "pipe"],
      encoding: "utf8",
      timeout: 30_000,
    });
    closeSync(writer);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  },
);
