import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { validateSummary } from "@dlrm/reporter";
import { beforeEach, describe, expect, it } from "vitest";

const cli = fileURLToPath(new URL("./cli.ts", import.meta.url));
const SMALL =
  "--preset dcnv2-lite --max_vocab_size 50 --request_batch_sizes 1,3 --concurrencies 2 --warmup 0 --repeats 1";

let workDir: string;

beforeEach(() => {
  workDir = mkdtempSync(path.join(tmpdir(), "bench-cli-"));
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

describe("dlrm-bench with the real engine", () => {
  it.each([
    ["cpu", "off"],
    ["sim", "on"],
  ])(
    "gives a report of a small run on %s, open loop %s",
    async (platform, openLoop) => {
      const { child, output } = start(
        `--platform ${platform} --arms engine --duration 0.3 --open_loop ${openLoop} ${SMALL}`,
      );
      const [code] = (await once(child, "close")) as [number];
      const { stdout, stderr } = output();
      expect(stderr).toContain("engine, repeat 1: load, B_req 3, C 2");
      expect(code).toBe(0);
      expect(stdout).toContain(results("REPORT.md"));
      const summary = validateSummary(JSON.parse(readFileSync(results("summary.json"), "utf8")));
      expect(summary).toMatchObject({ platform, preset: "dcnv2-lite", simulatedAccelerator: platform === "sim" });
      expect(summary.arms?.map(({ arm, status }) => [arm, status])).toEqual([["engine", "ok"]]);
      expect(summary.parity.map(({ bReq, ok }) => [bReq, ok])).toEqual([
        [1, true],
        [3, true],
      ]);
      const loads = openLoop === "on" ? [undefined, 0.5, 0.8] : [undefined];
      expect(summary.points.map(({ bReq, peakFraction, errors }) => [bReq, peakFraction, errors])).toEqual(
        [1, 3].flatMap((bReq) => loads.map((peakFraction) => [bReq, peakFraction, {}])),
      );
      for (const { mode, examplesPerS } of summary.points) {
        // A slow machine may be offered less than a request in so short a time.
        if (mode === "closed") expect(examplesPerS).toBeGreaterThan(0);
      }
      expect(summary.environment.gatherKernel).toEqual(expect.any(String));
      const open = openLoop === "on" ? ["p50", "p80"] : [];
      const names = [1, 3].flatMap((bReq) =>
        [`closed-b${bReq}-c2-r1`].concat(open.map((share) => `open-b${bReq}-${share}-r1`)),
      );
      expect(readdirSync(results("engine")).sort()).toEqual(
        [
          ...names.flatMap((name) => [`${name}.json`, `${name}.monitor.json`]),
          "loadgen-r1.log",
          "server-r1.log",
        ].sort(),
      );
    },
    TIMEOUT_MS,
  );

  it(
    "stops on SIGINT with what it has",
    async () => {
      const { child, output } = start(`--platform sim --arms engine --duration 600 ${SMALL}`);
      const loading = new Promise<void>((resolve) => {
        child.stderr?.on("data", () => {
          if (output().stderr.includes("load, B_req 1")) resolve();
        });
      });
      await loading;
      child.kill("SIGINT");
      const [code] = (await once(child, "close")) as [number];
      expect(code).toBe(130);
      expect(output().stderr).toContain("SIGINT: stopping; results so far are written.");
      const summary = validateSummary(JSON.parse(readFileSync(results("summary.json"), "utf8")));
      expect(summary.interrupted).toBe(true);
      expect(summary.parity).toHaveLength(2);
      expect(existsSync(results("REPORT.md"))).toBe(true);
    },
    TIMEOUT_MS,
  );
});
