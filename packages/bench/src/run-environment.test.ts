import { existsSync, readFileSync, writeFileSync } from "node:fs";
import type { Arm } from "@dlrm/arm-contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, NOT_PINNED } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";
import type { Measure } from "./measure.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("the environment of a run", { timeout: 300_000 }, () => {
  it("tells of the machine and the commit that it began on, and of what has changed since", async () => {
    const before = { node: "24.0.0", gitCommit: "a1", cpuModel: "Xeon" };
    const after = { node: "24.0.0", gitCommit: "b2", cpuModel: "Xeon" };
    const stopping: Measure = async ({ signal }) => {
      trial.stop.abort(new Error("stopped by SIGINT"));
      throw signal.reason;
    };
    const first = await trial.run([fakeArm("engine")], {
      measure: stopping,
      dependencies: { describeMachine: async () => before, describeEnvironment: async () => after },
    });
    const changed = "gitCommit: it was a1, now b2";
    expect(first.summary.environment).toMatchObject(before);
    expect(first.summary.warnings).toEqual([NOT_PINNED, `changed while the run went on: ${changed}`]);

    // As if the hypervisor had taken half of a long first session.
    const journal = JSON.parse(readFileSync(trial.results("run.json"), "utf8")) as Record<string, unknown>;
    writeFileSync(trial.results("run.json"), JSON.stringify({ ...journal, ticks: { all: 1e12, steal: 5e11 } }));
    trial.stop = new AbortController();
    const elsewhere = { ...after, cpuModel: "EPYC" };
    const found = async (): Promise<typeof elsewhere> => elsewhere;
    const { summary } = await trial.run([fakeArm("engine")], {
      flags: { resume: true },
      dependencies: { describeMachine: found, describeEnvironment: found },
    });
    expect(summary.environment).toMatchObject(before);
    expect(summary.warnings).toEqual([
      NOT_PINNED,
      `changed while the run went on: ${changed}`,
      expect.stringMatching(new RegExp(`^the run was continued at .*; ${changed}; cpuModel: it was Xeon, now EPYC$`)),
    ]);
    expect(trial.shown).toContain(`; ${changed}; cpuModel: it was Xeon, now EPYC\n`);
    if (existsSync("/proc/stat")) expect(summary.environment.stealFraction).toBe(0.5);
  });

  it("reports although the environment cannot be described", async () => {
    const describeEnvironment = (): Promise<never> => Promise.reject(new Error("no space left"));
    const { summary, exitCode } = await trial.run([fakeArm("engine")], { dependencies: { describeEnvironment } });
    expect(exitCode).toBe(0);
    expect(summary.environment.node).toBe("24.0.0");
    expect(summary.warnings).toEqual([NOT_PINNED, "the environment is not known in whole: no space left"]);
  });

  it("reports a run that was stopped before it was found out that there is no Python", async () => {
    trial.stop.abort(new Error("stopped by SIGINT"));
    const arm: Arm = {
      ...fakeArm("py", { family: "python" }),
      command: () => {
        throw new Error("no usable Python: need Python 3.11");
      },
    };
    const { summary, exitCode } = await trial.run([arm]);
    expect(exitCode).toBe(130);
    expect(summary.interrupted).toBe(true);
    expect(existsSync(trial.results("REPORT.md"))).toBe(true);
  });
});
