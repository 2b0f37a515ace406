import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BenchTrial, measured } from "../test/bench-trial.ts";
import { fakeArm } from "../test/fake-arm.ts";
import type { Measure } from "./measure.ts";

let trial: BenchTrial;

beforeEach(async () => {
  trial = await BenchTrial.open();
});

afterEach(() => trial.close());

// Each starts several processes.
describe("a point of a run", { timeout: 300_000 }, () => {
  it("offers shares of each arm's own peak, the same rate in every repeat", async () => {
    const rates: number[] = [];
    let points = 0;
    const measure: Measure = async (request) => {
      const { mode } = request.task;
      if (mode.kind === "open") rates.push(mode.offeredRps);
      const { load, ...rest } = await measured(request);
      // Closed-loop points of the second repeat are faster.
      return {
        ...rest,
        load: { ...load, examplesPerS: load.examplesPerS * (++points > 6 ? 2 : 1), dropped: 1, late: 2 },
      };
    };
    const { summary } = await trial.run([fakeArm("engine")], { measure, flags: { repeats: "2", open_loop: "on" } });
    expect(rates).toEqual([500, 800, 500, 800, 500, 800, 500, 800]);
    expect(
      summary.points
        .filter(({ mode }) => mode === "open")
        .map(({ bReq, offeredRps, peakFraction, dropped, repeats }) => [
          bReq,
          offeredRps,
          peakFraction,
          dropped,
          repeats.length,
        ]),
    ).toEqual([
      [1, 500, 0.5, 2, 2],
      [1, 800, 0.8, 2, 2],
      [3, 500, 0.5, 2, 2],
      [3, 800, 0.8, 2, 2],
    ]);
    expect(JSON.parse(readFileSync(trial.results("engine", "open-b3-p80-r2.json"), "utf8"))).toMatchObject({
      mode: "open",
      offeredRps: 800,
      repeat: 2,
    });
  });

  it("leaves out the open loop of an arm without a peak, and says so", async () => {
    const measure: Measure = async (request) => {
      const { load, ...rest } = await measured(request);
      return { ...rest, load: { ...load, errors: { INTERNAL: 1 } } };
    };
    const { summary } = await trial.run([fakeArm("engine")], {
      measure,
      flags: { open_loop: "on", request_batch_sizes: "1" },
    });
    expect(summary.points.map(({ mode }) => mode)).toEqual(["closed"]);
    expect(summary.arms?.[0]?.warnings).toEqual([
      "no open loop at 50 % of the peak at B_req 1: no closed-loop point without errors to take the rate from",
      "no open loop at 80 % of the peak at B_req 1: no closed-loop point without errors to take the rate from",
    ]);
  });
});
