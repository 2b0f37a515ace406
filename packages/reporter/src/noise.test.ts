import { expect, it } from "vitest";
import { closedPoint, fixedSummary } from "../test/fixed-summary.ts";
import { noiseEvidence } from "./noise.ts";

const quiet = { cpuCount: 2, loadAverageBefore: 1, stealFraction: 0.02 };

it.each([
  ["0-1", "2", 1.5, 0],
  ["0-1", "2", 1.51, 1],
  // What they share counts once.
  ["0,2", "2-2", 1, 0],
  ["0,2", "2-2", 1.01, 1],
  // Nothing of the kind, or nothing at all: all 64.
  ["every", "", 32, 0],
  [undefined, undefined, 32, 0],
  [undefined, undefined, 32.01, 1],
])("server on CPUs %s, client on %s, of 64, at a load of %d: %d sign", (serverCpus, clientCpus, load, signs) => {
  const held = serverCpus === undefined ? {} : { serverCpus, clientCpus };
  const environment = { cpuCount: 64, loadAverageBefore: load };
  expect(noiseEvidence({ ...fixedSummary(), environment, settings: held, points: [] })).toHaveLength(signs);
});

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
