import { existsSync, readFileSync } from "node:fs";
import type { Arm } from "@dlrm/arm-contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, crashing, measured } from "../test/bench-trial.ts";
import { fakeArm, fakeServerCommand } from "../test/fake-arm.ts";
import type { Measure } from "./measure.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("what fails once in a run", { timeout: 300_000 }, () => {
  it("reports an arm that crashes under load, and keeps what it measured before", async () => {
    let crashes = 0;
    const measure: Measure = async (request) =>
      request.task.requestSize === 3 && ++crashes <= 2 ? await crashing(request) : await measured(request);
    const { summary, exitCode } = await trial.run([fakeArm("engine"), fakeArm("py")], { measure });
    expect(exitCode).toBe(1);
    expect(summary.arms?.[0]).toMatchObject({
      status: "failed",
      reason: "engine, repeat 1: load, B_req 3, C 2: the server ended during load: exit code 7",
      logTail: ["listening", "out of memory"],
    });
    expect(summary.points.map(({ arm, bReq }) => [arm, bReq])).toEqual([
      ["engine", 1],
      ["py", 1],
      ["py", 3],
    ]);
  });

  it("measures a point once more with a new server when the old one was killed, and says so", async () => {
    let kills = 0;
    const measure: Measure = async (request) => {
      if (++kills > 1) return await measured(request);
      process.kill(request.serverPid, "SIGKILL");
      return await new Promise((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason as Error));
      });
    };
    const { summary, exitCode } = await trial.run([fakeArm("engine")], { measure });
    expect(exitCode).toBe(0);
    expect(summary.points.map(({ bReq, repeats }) => [bReq, repeats.length])).toEqual([
      [1, 1],
      [3, 1],
    ]);
    const warning =
      "failed once and was measured again: engine, repeat 1: load, B_req 1, C 2: the server ended during load: signal SIGKILL";
    expect(summary.arms?.[0]).toMatchObject({ status: "ok", warnings: [warning] });
    expect(trial.shown).toContain(warning);
    expect(readFileSync(trial.results("REPORT.md"), "utf8")).toContain(warning);
    expect(existsSync(trial.results("engine", "server-r1-2.log"))).toBe(true);
  });

  it("measures a point once more with the same server when only the load generator failed", async () => {
    let failures = 0;
    const measure: Measure = async (request) => {
      if (++failures === 1) throw new Error("no connection");
      return await measured(request);
    };
    const { summary, exitCode } = await trial.run([fakeArm("engine")], { measure });
    expect(exitCode).toBe(0);
    expect(summary.arms?.[0]?.warnings).toEqual([
      "failed once and was measured again: engine, repeat 1: load, B_req 1, C 2: no connection",
    ]);
    expect(existsSync(trial.results("engine", "server-r1-2.log"))).toBe(false);
  });

  it.each([
    { mode: "crash", exit: "exit code 7", logTail: ["listening", "no rows for sparse_0"] },
    { mode: "killed", exit: "signal SIGKILL", logTail: ["listening"] },
  ] as const)("reports an arm that ends in the parity check with $exit, twice, and with its log", async (example) => {
    const { mode, exit, logTail } = example;
    const { summary, exitCode } = await trial.run([fakeArm("engine", { mode }), fakeArm("py")]);
    expect(exitCode).toBe(1);
    const doing = "engine, repeat 1: parity, B_req 1";
    const ended = `${doing}: the server ended during the parity check at B_req 1: ${exit}`;
    expect(summary.arms).toEqual([
      {
        arm: "engine",
        title: "fake engine",
        family: "engine",
        status: "failed",
        reason: ended,
        logTail,
        warnings: [`failed once and was checked again: ${ended}`],
      },
      { arm: "py", title: "fake py", family: "engine", status: "ok" },
    ]);
    expect(summary.parity?.map(({ arm, ok }) => [arm, ok])).toEqual([
      ["py", true],
      ["py", true],
    ]);
    expect(trial.shown).not.toContain("scores");
    for (const log of ["server-r1.log", "server-r1-2.log"]) expect(existsSync(trial.results("engine", log))).toBe(true);
  });

  it("checks once more with a new server when the old one ended in the parity check, and says so", async () => {
    let starts = 0;
    const arm: Arm = {
      ...fakeArm("engine"),
      command: ({ port }) => fakeServerCommand(port, ++starts === 1 ? "crash" : "ok"),
    };
    const { summary, exitCode } = await trial.run([arm]);
    expect(exitCode).toBe(0);
    expect(starts).toBe(2);
    expect(summary.arms?.[0]).toMatchObject({
      status: "ok",
      warnings: [
        "failed once and was checked again: engine, repeat 1: parity, B_req 1: the server ended during the parity check at " +
          "B_req 1: exit code 7",
      ],
    });
    expect(summary.parity?.map(({ bReq, ok }) => [bReq, ok])).toEqual([
      [1, true],
      [3, true],
    ]);
    expect(summary.points).toHaveLength(2);
  });
});
