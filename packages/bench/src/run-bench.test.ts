import { existsSync, readdirSync, readFileSync } from "node:fs";
import { validateSummary } from "@dlrm/reporter";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, measured } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";
import type { Measure } from "./measure.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("runBench", { timeout: 300_000 }, () => {
  it("measures every arm at every point, and writes everything", async () => {
    const { summary, reportFile, exitCode } = await trial.run(
      [fakeArm("engine"), fakeArm("py", { family: "python" })],
      {
        flags: { repeats: "2" },
      },
    );
    expect(exitCode).toBe(0);
    expect(summary.arms?.map(({ arm, status }) => [arm, status])).toEqual([
      ["engine", "ok"],
      ["py", "ok"],
    ]);
    expect(summary.parity).toEqual([
      { arm: "engine", bReq: 1, maxAbsDiff: expect.any(Number), ok: true },
      { arm: "engine", bReq: 3, maxAbsDiff: expect.any(Number), ok: true },
      { arm: "py", bReq: 1, maxAbsDiff: expect.any(Number), ok: true },
      { arm: "py", bReq: 3, maxAbsDiff: expect.any(Number), ok: true },
    ]);
    expect(
      summary.points.map((point) => [
        point.arm,
        point.bReq,
        point.concurrency,
        point.examplesPerS,
        point.serverCpuMicrosPerExample,
        point.repeats.length,
      ]),
    ).toEqual([
      ["engine", 1, 2, 1000, 50, 2],
      ["engine", 3, 2, 3000, 50 / 3, 2],
      ["py", 1, 2, 1000, 50, 2],
      ["py", 3, 2, 3000, 50 / 3, 2],
    ]);
    expect(summary.budgets.find(({ bReq, budgetMs }) => bReq === 1 && budgetMs === 20)).toEqual({
      bReq: 1,
      budgetMs: 20,
      engine: { arm: "engine", examplesPerS: 1000 },
      python: { arm: "py", examplesPerS: 1000 },
      ratio: 1,
    });
    expect(summary.settings.command).toContain("dlrm-bench --platform cpu --preset dcnv2-lite --max_vocab_size 500");
    expect(reportFile).toBe(trial.results("REPORT.md"));
    expect(validateSummary(JSON.parse(readFileSync(trial.results("summary.json"), "utf8")))).toEqual(summary);
    expect(readFileSync(trial.results("env.txt"), "utf8")).toContain("node: 24.0.0\n");
    expect(JSON.parse(readFileSync(trial.results("engine", "closed-b3-c2-r2.json"), "utf8"))).toMatchObject({
      arm: "engine",
      repeat: 2,
      result: { examples: 3000 },
    });
    for (const file of ["closed-b1-c2-r1.monitor.json", "server-r1.log", "server-r2.log"]) {
      expect(existsSync(trial.results("py", file))).toBe(true);
    }
    expect(existsSync(trial.results("charts", "throughput.dark.svg"))).toBe(true);
    expect(readFileSync(trial.results("report.html"), "utf8")).toContain("<title>Benchmark: dcnv2-lite on cpu</title>");
    // Model, devices, 2 prepare, and start, 2 parity, 2 load, stop of 2 arms in 2 repeats, report.
    expect(trial.shown).toContain("29 steps");
    expect(trial.shown).toMatch(/\[ 1\/29\] model .*\n/);
    expect(trial.shown).toMatch(/\[ 2\/29\] dense network on this CPU .*\n/);
    expect(trial.shown).toMatch(/\[28\/29\] engine, repeat 2: stop /);
  });

  it("has its work_dir for itself, and gives it back", async () => {
    let second: Promise<unknown> | undefined;
    const measure: Measure = async (request) => {
      second ??= trial.run([fakeArm("py")]);
      await expect(second).rejects.toMatchObject({ code: "usage", message: expect.stringContaining(trial.workDir) });
      return await measured(request);
    };
    const { summary, exitCode } = await trial.run([fakeArm("engine")], { measure });
    expect(exitCode).toBe(0);
    expect(summary.arms?.map(({ arm }) => arm)).toEqual(["engine"]);
    expect(readdirSync(trial.workDir)).toEqual(["results"]);
    expect((await trial.run([fakeArm("engine")])).exitCode).toBe(0);
  });

  it("gives earlier results their place again when there is no model to measure", async () => {
    await trial.run([fakeArm("engine")]);
    const prepareBundle = async (): Promise<never> => {
      throw new Error("no space for it");
    };
    const earlier = readFileSync(trial.results("run.json"), "utf8");
    await expect(trial.run([fakeArm("engine")], { dependencies: { prepareBundle } })).rejects.toMatchObject({
      code: "prepare_failed",
      message: "no space for it",
    });
    expect(readdirSync(trial.workDir)).toEqual(["results"]);
    expect(readFileSync(trial.results("run.json"), "utf8")).toBe(earlier);
    expect(trial.shown).toContain(`earlier results moved back to ${trial.results()}\n`);
  });

  it("gives earlier results their place again when it is told to stop before there is a model", async () => {
    await trial.run([fakeArm("engine")]);
    const earlier = readFileSync(trial.results("run.json"), "utf8");
    const prepareBundle = async (): Promise<never> => {
      trial.stop.abort(new Error("stopped by SIGINT"));
      throw new Error("export was killed");
    };
    await expect(trial.run([fakeArm("engine")], { dependencies: { prepareBundle } })).rejects.toThrow(
      "stopped by SIGINT",
    );
    expect(readdirSync(trial.workDir)).toEqual(["results"]);
    expect(readFileSync(trial.results("run.json"), "utf8")).toBe(earlier);
  });

  it("leaves no results when it is told to stop before there is a model, and there were none", async () => {
    const prepareBundle = async (): Promise<never> => {
      trial.stop.abort(new Error("stopped by SIGINT"));
      throw new Error("export was killed");
    };
    await expect(trial.run([fakeArm("engine")], { dependencies: { prepareBundle } })).rejects.toMatchObject({
      code: "interrupted",
    });
    expect(readdirSync(trial.workDir)).toEqual([]);
  });

  it("stops when told to, leaves no server behind, and reports what it has", async () => {
    let points = 0;
    const measure: Measure = async (request) => {
      if (++points === 1) return await measured(request);
      trial.stop.abort(new Error("stopped by SIGINT"));
      return await new Promise((_, reject) => reject(request.signal.reason as Error));
    };
    const arm = fakeArm("engine", { notifyPort: trial.lifeLine.port });
    const { summary, exitCode } = await trial.run([arm, fakeArm("py")], { measure });
    const { ended } = await trial.lifeLine.connected();
    await ended;
    expect(exitCode).toBe(130);
    expect(summary.interrupted).toBe(true);
    expect(summary.arms?.map(({ status }) => status)).toEqual(["unfinished", "unfinished"]);
    expect(summary.points).toHaveLength(1);
    expect(readFileSync(trial.results("REPORT.md"), "utf8")).toContain("**Incomplete.**");
  });
});
