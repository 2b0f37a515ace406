import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("an arm of a run that fails", { timeout: 300_000 }, () => {
  it("reports an arm that ends before it is healthy, with its log, and measures the others", async () => {
    const { summary, exitCode } = await trial.run([fakeArm("engine", { mode: "early-exit" }), fakeArm("py")]);
    expect(exitCode).toBe(1);
    expect(summary.arms).toEqual([
      {
        arm: "engine",
        title: "fake engine",
        family: "engine",
        status: "failed",
        reason: "engine, repeat 1: start: the server ended during its start: exit code 3",
        logTail: ["reading tables", "cannot open tables.safetensors: no such file"],
      },
      { arm: "py", title: "fake py", family: "engine", status: "ok" },
    ]);
    expect(summary.points.map(({ arm }) => arm)).toEqual(["py", "py"]);
    expect(trial.shown).toContain("| cannot open tables.safetensors: no such file");
    expect(readFileSync(trial.results("REPORT.md"), "utf8")).toContain("cannot open tables.safetensors");
  });

  it("puts no load on an arm whose scores are wrong", async () => {
    const { summary, exitCode } = await trial.run([fakeArm("engine", { mode: "wrong" })]);
    expect(exitCode).toBe(1);
    expect(summary.points).toEqual([]);
    expect(summary.parity).toEqual([{ arm: "engine", bReq: 1, maxAbsDiff: expect.closeTo(0.01, 6), ok: false }]);
    expect(summary.arms?.[0]?.reason).toMatch(
      /parity, B_req 1: scores are not the reference's at B_req 1: largest difference 1.00e-2, expected at most 1e-4$/,
    );
  });
});
