import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, fakeForward, measured } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";
import type { Measure } from "./measure.ts";
import type { Reference } from "./parity-check.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

function fillDisk(file: string): void {
  for (const bytes of [65_536, 4096, 1]) {
    try {
      for (;;) appendFileSync(file, Buffer.alloc(bytes));
    } catch {
      // Full for pieces of that size.
    }
  }
}

// Each starts several processes.
describe("a run whose results cannot be written", { timeout: 300_000 }, () => {
  it("says that the disk is full, ends the server, keeps what was measured, and goes on from there", async (context) => {
    const mount = spawnSync("mount", ["-t", "tmpfs", "-o", "size=512k", "tmpfs", trial.workDir], { encoding: "utf8" });
    if (mount.status !== 0) context.skip(`needs the right to mount a tmpfs: ${mount.error?.message ?? mount.stderr}`);
    try {
      const filler = path.join(trial.workDir, "filler");
      let points = 0;
      const measure: Measure = async (request) => {
        if (++points === 2) fillDisk(filler);
        return await measured(request);
      };
      const arm = fakeArm("engine", { notifyPort: trial.lifeLine.port });
      await expect(trial.run([arm], { measure })).rejects.toMatchObject({
        code: "results_failed",
        message: expect.stringMatching(
          /^cannot write .*ENOSPC.* \(the disk is full\)\nWhat was measured before is in .*--resume goes on\.$/,
        ),
      });
      const { ended } = await trial.lifeLine.connected();
      await ended;
      expect(existsSync(trial.results("engine", "closed-b1-c2-r1.json"))).toBe(true);
      expect(readdirSync(trial.results("engine")).filter((file) => file.endsWith(".partial"))).toEqual([]);

      rmSync(filler);
      const { summary, exitCode } = await trial.run([fakeArm("engine")], { flags: { resume: true } });
      expect(exitCode).toBe(0);
      expect(summary.points.map(({ bReq }) => bReq)).toEqual([1, 3]);
      expect(trial.shown).toContain("continued: 1 of 2 measurements are there, 1 are left");
    } finally {
      spawnSync("umount", ["--lazy", trial.workDir]);
    }
  });

  it("ends without leaving a server behind when results cannot be written", async () => {
    const measure: Measure = async (request) => {
      mkdirSync(trial.results("engine", "closed-b1-c2-r1.json.partial"));
      return await measured(request);
    };
    const arm = fakeArm("engine", { notifyPort: trial.lifeLine.port });
    let closed = 0;
    const openReference = async (): Promise<Reference> => ({
      forward: fakeForward,
      close: async () => void closed++,
    });
    await expect(trial.run([arm], { measure, dependencies: { openReference } })).rejects.toMatchObject({
      code: "results_failed",
      message: expect.stringMatching(/^cannot write .*closed-b1-c2-r1\.json: EISDIR/),
    });
    const { ended } = await trial.lifeLine.connected();
    await ended;
    expect(closed, "the reference is closed").toBe(1);
  });
});
