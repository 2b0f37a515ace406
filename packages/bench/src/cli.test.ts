import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { validateSummary } from "@dlrm/reporter";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { tempFolder } from "../test/temp-folder.ts";
import { findProgram } from "./machine.ts";

const cli = fileURLToPath(new URL("./cli.ts", import.meta.url));
const SMALL =
  "--preset dcnv2-lite --max_vocab_size 50 --request_batch_sizes 3 --concurrencies 2 --warmup 0 --repeats 1";

let workDir: string;

beforeEach(() => {
  workDir = tempFolder("cli");
});

function start(flags: string): { child: ReturnType<typeof spawn>; output: () => { stdout: string; stderr: string } } {
  const args = ["--conditions=@dlrm/source", cli, ...flags.split(" "), "--work_dir", workDir];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (part: string) => (stdout += part));
  child.stderr?.setEncoding("utf8").on("data", (part: string) => (stderr += part));
  return { child, output: () => ({ stdout, stderr }) };
}

function results(...parts: string[]): string {
  return path.join(workDir, "results", ...parts);
}

// Each starts a dozen processes.
const TIMEOUT_MS = 300_000;

it.skipIf(!existsSync("/dev/full"))(
  "goes on where its progress and its errors can be shown no more (needs /dev/full)",
  async () => {
    const full = openSync("/dev/full", "w");
    onTestFinished(() => closeSync(full));
    const args = ["--conditions=@dlrm/source", cli, "--preset", "nope", "--work_dir", workDir];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", full] });
    expect(await once(child, "close")).toEqual([2, null]);
  },
  TIMEOUT_MS,
);

describe("dlrm-bench with the real engine", () => {
  it(
    "stopped when the reader of its output has ended, too, it writes its results",
    async () => {
      const { child, output } = start(`--platform sim --arms engine --duration 60 --open_loop off ${SMALL}`);
      const ended = once(child, "exit");
      onTestFinished(() => void child.kill("SIGKILL"));
      while (!output().stderr.includes("load, B_req 3") && child.exitCode === null) {
        await Promise.race([once(child.stderr as NodeJS.ReadableStream, "data"), ended]);
      }
      expect({ exitCode: child.exitCode, stderr: output().stderr }).toMatchObject({ exitCode: null });
      child.stdout?.destroy();
      child.stderr?.destroy();
      child.kill("SIGINT");
      expect(await ended).toEqual([130, null]);
      const summary = validateSummary(JSON.parse(readFileSync(results("summary.json"), "utf8")));
      expect(summary.interrupted).toBe(true);
    },
    TIMEOUT_MS,
  );

  // The platform cpu is what `npm run bench` runs.
  it(
    "gives a report of a small run on sim, with open loop",
    async () => {
      const { child, output } = start(`--platform sim --arms engine --duration 0.3 --open_loop on ${SMALL}`);
      const [code] = (await once(child, "close")) as [number];
      const { stdout, stderr } = output();
      expect(stderr).toContain("engine, repeat 1: load, B_req 3, C 2");
      expect(code).toBe(0);
      expect(stdout).toContain(results("REPORT.md"));
      const summary = validateSummary(JSON.parse(readFileSync(results("summary.json"), "utf8")));
      expect(summary).toMatchObject({ platform: "sim", preset: "dcnv2-lite", simulatedAccelerator: true });
      expect(summary.arms?.map(({ arm, status }) => [arm, status])).toEqual([["engine", "ok"]]);
      expect(summary.parity.map(({ bReq, ok }) => [bReq, ok])).toEqual([[3, true]]);
      const loads = [undefined, 0.5, 0.8];
      expect(summary.points.map(({ bReq, peakFraction, errors }) => [bReq, peakFraction, errors])).toEqual(
        loads.map((peakFraction) => [3, peakFraction, {}]),
      );
      for (const { mode, examplesPerS } of summary.points) {
        // A slow machine may be offered less than a request in so short a time.
        if (mode === "closed") expect(examplesPerS).toBeGreaterThan(0);
      }
      expect(summary.environment.gatherKernel).toEqual(expect.any(String));
      const names = ["closed-b3-c2-r1", "open-b3-p50-r1", "open-b3-p80-r1"];
      const pinned = findProgram("taskset") !== undefined;
      expect(readdirSync(results("engine")).sort()).toEqual(
        [
          ...names.flatMap((name) => [`${name}.json`, `${name}.monitor.json`]),
          "loadgen-r1.log",
          "server-r1.log",
          ...(pinned ? ["pinning-r1.json"] : []),
        ].sort(),
      );
      if (!pinned) return;
      const pinning = JSON.parse(readFileSync(results("engine", "pinning-r1.json"), "utf8")) as { threads: number };
      expect(pinning).toMatchObject({ cpus: [expect.any(Number)], processes: 1, strays: [] });
      expect(pinning.threads).toBeGreaterThan(1);
    },
    TIMEOUT_MS,
  );

  it(
    "stops on SIGINT with what it has",
    async () => {
      const { child, output } = start(`--platform sim --arms engine --duration 600 ${SMALL}`);
      const loading = new Promise<void>((resolve) => {
        child.stderr?.on("data", () => {
          if (output().stderr.includes("load, B_req 3")) resolve();
        });
      });
      await loading;
      child.kill("SIGINT");
      const [code] = (await once(child, "close")) as [number];
      expect(code).toBe(130);
      expect(output().stderr).toContain("SIGINT: stopping; results so far are written.");
      const summary = validateSummary(JSON.parse(readFileSync(results("summary.json"), "utf8")));
      expect(summary.interrupted).toBe(true);
      expect(summary.parity).toHaveLength(1);
      expect(existsSync(results("REPORT.md"))).toBe(true);
    },
    TIMEOUT_MS,
  );
});
