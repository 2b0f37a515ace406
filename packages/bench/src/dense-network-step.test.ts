import { readFileSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, DENSE_NETWORK_ROWS, NOT_PINNED } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";
import type { MeasureDenseNetwork } from "./dense-network-process.ts";
import type { Measure } from "./measure.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("devices of a run", { timeout: 300_000 }, () => {
  it("compares the devices of this CPU once, also when the run is continued", async () => {
    const tasks: object[] = [];
    const measureDenseNetwork: MeasureDenseNetwork = async ({ task, cpus }) => {
      tasks.push({ ...task, cpus });
      return { rows: DENSE_NETWORK_ROWS, warnings: ["the devices compared were not pinned: thread 7"] };
    };
    const measure: Measure = async ({ signal }) => {
      trial.stop.abort(new Error("stopped by SIGINT"));
      throw signal.reason;
    };
    const flags = { repeats: "2" };
    const stopped = await trial.run([fakeArm("engine")], { measure, measureDenseNetwork, flags });
    expect(stopped.summary).toMatchObject({ interrupted: true, denseNetwork: DENSE_NETWORK_ROWS });

    trial.stop = new AbortController();
    const { summary } = await trial.run([fakeArm("engine")], {
      measureDenseNetwork,
      flags: { ...flags, resume: true },
    });
    const bundleDir = path.join(trial.workDir, "bundles", "dcnv2-lite-500");
    expect(tasks).toEqual([{ bundleDir, batch: 128, numThreads: 1, rounds: 2, seed: 1, cpus: [0] }]);
    expect(summary.denseNetwork).toEqual(DENSE_NETWORK_ROWS);
    expect(summary.warnings).toHaveLength(3);
    expect(summary.warnings?.at(-1)).toBe("the devices compared were not pinned: thread 7");
    expect(summary.points).toHaveLength(2);
    expect(readFileSync(trial.results("REPORT.md"), "utf8")).toContain(
      "| a device | float32 | 1,280 | 1.00× | 1.00e-7 |\n",
    );
  });

  it("warns if devices could not be compared, measures the arms, and compares again when continued", async () => {
    const measureDenseNetwork: MeasureDenseNetwork = () => Promise.reject(new Error("signal SIGSEGV"));
    const { summary, exitCode } = await trial.run([fakeArm("engine")], { measureDenseNetwork });
    expect(exitCode).toBe(0);
    const warning = "the dense network on this CPU was not measured: signal SIGSEGV";
    expect(summary.warnings).toEqual([NOT_PINNED, warning]);
    expect(summary.denseNetwork).toBeUndefined();
    expect(summary.points).toHaveLength(2);
    expect(trial.shown).toContain(warning);
    expect(readFileSync(trial.results("REPORT.md"), "utf8")).toContain(
      `## Failures and warnings\n\n- ${NOT_PINNED}\n- ${warning}\n`,
    );

    const again = await trial.run([fakeArm("engine")], { flags: { resume: true } });
    expect(again.exitCode).toBe(0);
    expect(again.summary.denseNetwork).toEqual(DENSE_NETWORK_ROWS);
    expect(again.summary.warnings).not.toContain(warning);
    expect(again.summary.points).toEqual(summary.points);
  });
});
