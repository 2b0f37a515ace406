import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("arms of a run before they start", { timeout: 300_000 }, () => {
  it("skips an arm that this machine cannot run, and fails only if it was named", async () => {
    const { summary, exitCode } = await trial.run([fakeArm("engine"), fakeArm("py", { missing: "Python 3.11" })]);
    expect(summary.arms?.[1]).toMatchObject({
      status: "skipped",
      reason: "This machine lacks what it needs: Python 3.11",
    });
    expect(summary.points.map(({ arm }) => arm)).toEqual(["engine", "engine"]);
    expect(exitCode).toBe(1);
  });
});
