import { mkdirSync, readdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
  mkdirSync(trial.results("earlier"), { recursive: true });
});

afterEach(() => trial.close());

/** Names in the work_dir and in its results. */
const left = (): string[][] => [readdirSync(trial.workDir), readdirSync(trial.results())];

describe("a run that could measure nothing leaves earlier results where they are", () => {
  it("as it lacks what each of its arms needs", async () => {
    const arms = [fakeArm("engine", { missing: "a device" }), fakeArm("py", { missing: "Python 3.11" })];
    await expect(trial.run(arms)).rejects.toMatchObject({
      code: "prepare_failed",
      message: "this machine lacks what each of the arms needs:\n  engine: a device\n  py: Python 3.11",
    });
    expect(left()).toEqual([["results"], ["earlier"]]);
  });

  it("as it lacks the device that was asked for, though another arm could do without", async () => {
    const arms = [fakeArm("py", { family: "python" }), fakeArm("engine", { missing: "no file /nope.so" })];
    await expect(trial.run(arms, { flags: { device: "pjrt:/nope.so" } })).rejects.toMatchObject({
      code: "usage",
      message: '--device: expected one that this machine has, got "pjrt:/nope.so": no file /nope.so',
    });
    expect(left()).toEqual([["results"], ["earlier"]]);
  });
});
