import path from "node:path";
import { presetSpec } from "@dlrm/model";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakeArm, type FakeMode } from "../test/fake-arm.ts";
import { tempFolder } from "../test/temp-folder.ts";
import type { Machine } from "./machine.ts";
import { ParityCheck } from "./parity-check.ts";
import { checkParity } from "./parity-step.ts";
import { ProcessGuard } from "./process-guard.ts";
import { RunningArm } from "./running-arm.ts";
import { resolveSettings } from "./settings.ts";

const machine: Machine = { cpus: [0], memoryBytes: 1e9, taskset: undefined };
const signal = new AbortController().signal;

let guard: ProcessGuard;
let started: RunningArm;

beforeEach(() => {
  guard = new ProcessGuard();
});

afterEach(async () => {
  await started.stop(60_000);
  guard.close();
});

/** Of a server in that mode. @param endingMs for which a server that gives no scores may go on until it ends. */
async function check(mode: FakeMode, endingMs: number): Promise<unknown> {
  const arm = fakeArm("engine", { mode });
  const workDir = tempFolder("parity-step");
  const context = { machine, presets: ["dcnv2-lite"], arms: [arm], currentDir: workDir };
  const settings = resolveSettings({ work_dir: workDir }, context);
  const options = { settings, machine, guard, logFile: path.join(workDir, "server.log"), signal };
  started = await RunningArm.start(arm, options);
  await started.untilReady(options);
  const parity = new ParityCheck({
    spec: presetSpec("dcnv2-lite", { maxVocabSize: 500 }),
    // Of the first id of all, which is the first row of its table.
    reference: { forward: async ({ batch }) => new Float64Array(batch), close: async () => undefined },
    simulated: false,
    seed: 1,
  });
  return await checkParity({ started, parity, bReq: 1, signal, endingMs });
}

describe("checkParity", { timeout: 300_000 }, () => {
  it("waits for the end of a server that closes its connections first", async () => {
    await expect(check("crash", 60_000)).rejects.toMatchObject({
      code: "arm_failed",
      message: "the server ended during the parity check at B_req 1: exit code 7",
    });
  });

  it("tells of a server that closes its connections and lives on, which says nothing of its scores", async () => {
    await expect(check("hang-up", 1)).rejects.toMatchObject({
      code: "arm_failed",
      message: expect.stringMatching(
        /^the server runs, but gave no answer in the parity check at B_req 1: int32 ids: \[\w+\] /,
      ),
    });
    expect(started.server.ended).toBeUndefined();
  });

  it("takes an error that a server answers with for an outcome", async () => {
    expect(await check("error", 1)).toEqual({
      ok: false,
      maxAbsDiff: null,
      error: expect.stringMatching(/^int32 ids: \[internal\]/),
    });
  });
});
