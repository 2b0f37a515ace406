import type { PointKey } from "@dlrm/reporter";
import { describe, expect, it } from "vitest";
import { fakeArm } from "../test/fake-arm.ts";
import { Findings } from "./findings.ts";

const ARMS = [fakeArm("engine"), fakeArm("engine-batch"), fakeArm("py", { family: "python" })];
const RUN = {
  platform: "cpu",
  preset: "dcnv2-lite",
  simulatedAccelerator: false,
  environment: {},
  settings: {},
  finished: true,
} as const;

function addPoint(findings: Findings, arm: string, examplesPerS: number): void {
  const key: PointKey = { arm, bReq: 1, mode: "closed", concurrency: 1, offeredRps: null };
  findings.addRepeat(key, {
    repeat: 1,
    examplesPerS,
    p50Ms: 1,
    p99Ms: 5,
    errors: {},
    serverCpuMicrosPerExample: null,
    serverPeakRssBytes: null,
    serverPeakPssBytes: null,
    clientCpuFraction: null,
    clientBound: false,
  });
}

describe("Findings", () => {
  it("lets an arm that fails parity in a later repeat win no comparison with its points of an earlier one", () => {
    const findings = new Findings(ARMS);
    addPoint(findings, "engine", 9000);
    addPoint(findings, "engine-batch", 4000);
    addPoint(findings, "py", 1000);
    findings.addParity("engine", 1, { ok: true, maxAbsDiff: 1e-7 });
    findings.addParity("engine", 1, { ok: false, maxAbsDiff: 0.01 });
    findings.addParity("py", 1, { ok: true, maxAbsDiff: 1e-7 });
    const { points, budgets } = findings.summary(RUN);
    expect(points).toHaveLength(3);
    expect(budgets.map(({ engine, ratio }) => [engine?.arm, ratio])).toEqual(budgets.map(() => ["engine-batch", 4]));
  });

  it("tells, once a run is continued, of arms that had failed, but not of those that lacked something", () => {
    const before = new Findings(ARMS);
    before.giveUp("engine", { status: "failed", reason: "scores are not the reference's at B_req 1" });
    before.giveUp("py", { status: "skipped", reason: "no Python" });
    const findings = new Findings(ARMS);
    findings.restore(JSON.parse(JSON.stringify(before.state())));
    const warning = "failed before the run was continued: scores are not the reference's at B_req 1";
    const told = findings.outcomes(true).map(({ status, warnings }) => [status, warnings]);
    expect(told).toEqual([
      ["ok", [warning]],
      ["ok", undefined],
      ["ok", undefined],
    ]);
    // Continued once more, without a failure in between, it is told once.
    const again = new Findings(ARMS);
    again.restore(findings.state());
    expect(again.outcomes(true)[0]?.warnings).toEqual([warning]);
  });
});
