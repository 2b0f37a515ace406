import { describe, expect, it } from "vitest";
import { describeStep, planRun, pointName, remainingSteps, type PlanFacts, type Step } from "./plan.ts";
import { resolveSettings } from "./settings.ts";
import { formatSeconds, TimeLeft } from "./time-left.ts";

const settings = resolveSettings(
  {
    arms: "engine,py",
    request_batch_sizes: "1,16",
    concurrencies: "1,8",
    repeats: "2",
    duration: "5",
    warmup: "1",
    open_loop: "on",
  },
  {
    machine: { cpus: [0, 1], memoryBytes: 1, taskset: undefined },
    presets: ["dcnv2-lite"],
    arms: [
      { name: "engine", platforms: ["cpu"] },
      { name: "py", platforms: ["cpu"] },
    ],
    currentDir: "/",
  },
);
const facts: PlanFacts = {
  bundleExists: false,
  tableBytes: 3e9,
  cacheExists: false,
  families: new Map([
    ["engine", "engine"],
    ["py", "python"],
  ]),
};

function ofArm(arm: string, repeat: number): string[] {
  const of = `${arm}, repeat ${repeat}`;
  return [
    `${of}: start`,
    `${of}: parity, B_req 1`,
    `${of}: parity, B_req 16`,
    `${of}: load, B_req 1, C 1`,
    `${of}: load, B_req 1, C 8`,
    `${of}: load, B_req 16, C 1`,
    `${of}: load, B_req 16, C 8`,
    `${of}: load, B_req 1, open loop at 50 % of the peak`,
    `${of}: load, B_req 1, open loop at 80 % of the peak`,
    `${of}: load, B_req 16, open loop at 50 % of the peak`,
    `${of}: load, B_req 16, open loop at 80 % of the peak`,
    `${of}: stop`,
  ];
}

describe("planRun", () => {
  it("alternates arms within each repeat, in turned order in the second; parity before load, closed before open loop", () => {
    expect(planRun(settings, facts).map(describeStep)).toEqual([
      "model",
      "dense network on this CPU",
      "engine: prepare",
      "py: prepare",
      ...ofArm("engine", 1),
      ...ofArm("py", 1),
      ...ofArm("py", 2),
      ...ofArm("engine", 2),
      "report",
    ]);
  });

  it("estimates steps from the settings and what is there already", () => {
    const estimate = (steps: readonly Step[], text: string): number | undefined =>
      steps.find((step) => describeStep(step) === text)?.estimateS;
    const fresh = planRun(settings, facts);
    expect(estimate(fresh, "model")).toBe(25);
    expect(estimate(fresh, "dense network on this CPU")).toBe(8);
    expect(estimate(fresh, "engine: prepare")).toBe(1);
    expect(estimate(fresh, "py: prepare")).toBe(90);
    expect(estimate(fresh, "engine, repeat 1: start")).toBe(5);
    expect(estimate(fresh, "py, repeat 1: start")).toBe(13);
    expect(estimate(fresh, "engine, repeat 1: load, B_req 16, C 8")).toBe(7);
    const again = planRun(settings, { ...facts, bundleExists: true, cacheExists: true });
    expect(estimate(again, "model")).toBe(0.5);
    expect(estimate(again, "py: prepare")).toBe(1);
  });

  it("compares devices of this CPU only where that runs the dense network", () => {
    for (const platform of ["sim", "tpu", "cuda"] as const) {
      const kinds = planRun({ ...settings, platform }, facts).map(({ kind }) => kind);
      expect(kinds.slice(0, 2)).toEqual(["model", "prepare"]);
      expect(kinds).not.toContain("dense_network");
    }
  });

  it("has no open loop where that is off", () => {
    const steps = planRun({ ...settings, openLoop: false }, facts).filter((step) => step.kind === "load");
    expect(steps.map(({ load }) => load.mode)).toEqual(Array(16).fill("closed"));
  });

  it("is the same for the same settings", () => {
    expect(planRun(settings, facts)).toEqual(planRun(settings, facts));
  });
});

describe("remainingSteps", () => {
  const closedOnly = planRun({ ...settings, openLoop: false }, facts);

  it("leaves out what was measured, and what only that needed", () => {
    // All of engine's first repeat, one point of py's first.
    const left = remainingSteps(closedOnly, (step) => {
      if (step.kind === "dense_network") return true;
      const { arm, repeat, bReq, load } = step;
      if (repeat !== 1) return false;
      return arm === "engine" || (bReq === 16 && load.mode === "closed" && load.concurrency === 8);
    });
    const of = (arm: string, repeat: number): string[] =>
      left.filter((step) => "repeat" in step && step.arm === arm && step.repeat === repeat).map(describeStep);
    expect(of("engine", 1)).toEqual([]);
    const closed = ofArm("py", 1).filter((text) => !text.includes("open loop"));
    expect(of("py", 1)).toEqual(closed.filter((text) => !text.includes("load, B_req 16, C 8")));
    expect(of("engine", 2)).toHaveLength(8);
    expect(left.slice(0, 3).map(describeStep)).toEqual(["model", "engine: prepare", "py: prepare"]);
  });

  it("prepares no arm that has nothing left, and only reports when nothing is", () => {
    const left = remainingSteps(closedOnly, (step) => step.kind === "load" && step.arm === "py").map(describeStep);
    expect(left).not.toContain("py: prepare");
    expect(remainingSteps(closedOnly, () => true).map(describeStep)).toEqual(["report"]);
    expect(remainingSteps(closedOnly, () => false)).toEqual(closedOnly);
  });
});

it("makes the model for devices that are left, though no arm is", () => {
  const left = remainingSteps(planRun(settings, facts), ({ kind }) => kind === "load");
  expect(left.map(describeStep)).toEqual(["model", "dense network on this CPU", "report"]);
});

describe("TimeLeft", () => {
  const steps: Step[] = [
    { kind: "model", estimateS: 10 },
    { kind: "start", arm: "py", repeat: 1, estimateS: 5 },
    { kind: "stop", arm: "py", repeat: 1, estimateS: 1 },
    { kind: "start", arm: "py", repeat: 2, estimateS: 5 },
    { kind: "start", arm: "engine", repeat: 2, estimateS: 5 },
  ];

  it("sums what is left, with steps as long as the last of their class", () => {
    const left = new TimeLeft(steps);
    expect(left.from(0)).toBe(26);
    expect(left.from(3)).toBe(10);
    left.done(steps[1] as Step, 20);
    expect(left.from(2)).toBe(26);
    expect(left.from(2, (step) => "arm" in step && step.arm === "py")).toBe(5);
    expect(left.from(5)).toBe(0);
  });
});

it.each([
  [0.2, "1 s"],
  [89.5, "90 s"],
  [90, "2 min"],
  [60 * 59, "59 min"],
  [3900, "1 h 05 min"],
])("%d s reads %s", (seconds, text) => {
  expect(formatSeconds(seconds)).toBe(text);
});

it("names the files of a point", () => {
  expect(pointName({ bReq: 16, load: { mode: "closed", concurrency: 8 } })).toBe("closed-b16-c8");
  expect(pointName({ bReq: 1, load: { mode: "open", peakFraction: 0.8 } })).toBe("open-b1-p80");
});
