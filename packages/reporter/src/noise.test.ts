import { expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { noiseEvidence } from "./noise.ts";

const quiet = { cpuCount: 2, loadAverageBefore: 1, stealFraction: 0.02 };

it.each([
  [quiet, [100, 90, 110], []],
  [{}, [0, 0], []],
  [{ ...quiet, loadAverageBefore: 1.01 }, [100], ["the load average was 1.01 before the first step"]],
  [{ ...quiet, stealFraction: 0.031 }, [100], ["the hypervisor took 3 % of the CPU time"]],
  [quiet, [100, 90, 110.1], ["repeats of 1 of 1 points differ by more than ±10 %"]],
])("environment %j with repeats %j: %j", (environment, values, expected) => {
  expect(noiseEvidence({ ...fixedSummary(), environment, points: [closedPoint("py", 1, 1, values)] })).toEqual(
    expected,
  );
});
