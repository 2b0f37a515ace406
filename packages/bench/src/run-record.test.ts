import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, measured, NOT_PINNED } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";
import type { Measure } from "./measure.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("a run that is continued", { timeout: 300_000 }, () => {
  it("continues a run that was stopped: what was measured stays, what is left is measured", async () => {
    const measurements: string[] = [];
    const counting: Measure = async (request) => {
      if (measurements.length === 3) {
        trial.stop.abort(new Error("stopped by SIGINT"));
        throw request.signal.reason;
      }
      measurements.push(`${request.task.requestSize} ${request.task.seed}`);
      return await measured(request);
    };
    const arms = [fakeArm("engine"), fakeArm("py")];
    const stopped = await trial.run(arms, { measure: counting, flags: { repeats: "2" } });
    expect(stopped.exitCode).toBe(130);
    expect(trial.shown).toContain("the same command with --resume goes on");
    expect(stopped.summary.points).toHaveLength(3);

    trial.stop = new AbortController();
    trial.shown = "";
    const later: string[] = [];
    const measure: Measure = async (request) => {
      later.push(`${request.task.requestSize} ${request.task.seed}`);
      return await measured(request);
    };
    const { summary, exitCode } = await trial.run(arms, { measure, flags: { repeats: "2", resume: true } });
    expect(exitCode).toBe(0);
    expect(trial.shown).toContain("continued: 3 of 8 measurements are there, 5 are left");
    // The rest of the first repeat of py, then the second repeat of both.
    expect(later).toEqual(["3 1", "1 2", "3 2", "1 2", "3 2"]);
    expect(summary.interrupted).toBeUndefined();
    expect(summary.points.map(({ arm, bReq, repeats }) => [arm, bReq, repeats.length])).toEqual([
      ["engine", 1, 2],
      ["engine", 3, 2],
      ["py", 1, 2],
      ["py", 3, 2],
    ]);
    expect(summary.environment.startedAt).toBe(stopped.summary.environment.startedAt);
    expect(summary.environment["resumedAt"]).toHaveLength(1);
    expect(stopped.summary.warnings).toEqual([NOT_PINNED]);
    const [resumedAt] = summary.environment["resumedAt"] as [string];
    const continued = `^the run was continued at ${resumedAt}, when the load average was [\\d.]+$`;
    expect(summary.warnings).toEqual([NOT_PINNED, expect.stringMatching(new RegExp(continued))]);
    expect(readFileSync(trial.results("REPORT.md"), "utf8")).toContain(`- the run was continued at ${resumedAt}, `);
    // What the server said in the first session stays beside what it said in the second.
    for (const log of ["server-r1.log", "server-r1-2.log"]) {
      expect(readFileSync(trial.results("py", log), "utf8")).toBe("listening\n");
    }

    const again = await trial.run(arms, { measure, flags: { repeats: "2", resume: true } });
    expect(again.exitCode).toBe(0);
    expect(again.summary.points).toEqual(summary.points);
    expect(later).toHaveLength(5);
    expect(again.summary.warnings).toHaveLength(3);
  });

  it("tries an arm again that failed, when a run is continued", async () => {
    const journals: string[] = [];
    const measure: Measure = async (request) => {
      journals.push(readFileSync(trial.results("run.json"), "utf8"));
      return await measured(request);
    };
    const py = fakeArm("py");
    const failed = await trial.run([fakeArm("engine", { mode: "early-exit" }), py], { measure });
    expect(failed.exitCode).toBe(1);
    // It is kept at once, for a run that does not get so far as to write a report.
    expect(JSON.parse(journals[0] ?? "")).toMatchObject({ findings: { failed: [{ arm: "engine" }] } });
    const { summary, exitCode } = await trial.run([fakeArm("engine"), py], { flags: { resume: true } });
    expect(exitCode).toBe(0);
    expect(summary.arms?.[0]).toMatchObject({
      status: "ok",
      warnings: [`failed before the run was continued: ${failed.summary.arms?.[0]?.reason}`],
    });
    expect(summary.points).toHaveLength(4);
  });

  it("continues no run with other settings, and leaves its results alone", async () => {
    await trial.run([fakeArm("engine")]);
    const before = readFileSync(trial.results("summary.json"), "utf8");
    await expect(trial.run([fakeArm("engine")], { flags: { resume: true, concurrencies: "4" } })).rejects.toMatchObject(
      {
        code: "usage",
        message: expect.stringContaining("concurrencies: it had [2], now [4]"),
      },
    );
    expect(readFileSync(trial.results("summary.json"), "utf8")).toBe(before);
  });
});
