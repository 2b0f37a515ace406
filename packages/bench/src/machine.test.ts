import { expect, it } from "vitest";
import { defaultCpuSplit, findProgram, readMachine } from "./machine.ts";

it.each([
  [[3], [3], [3]],
  [[0, 1], [0], [1]],
  [[0, 1, 2], [0], [1, 2]],
  [
    [2, 3, 6, 7],
    [2, 3],
    [6, 7],
  ],
])("CPUs %j: server %j, client %j", (cpus, server, client) => {
  expect(defaultCpuSplit(cpus)).toEqual({ server, client });
});

it("reads the CPUs that this process may use", () => {
  const { cpus, memoryBytes } = readMachine();
  expect(cpus.length).toBeGreaterThan(0);
  expect([...cpus].sort((a, b) => a - b)).toEqual(cpus);
  expect(memoryBytes).toBeGreaterThan(0);
});

it("finds no program that isn't there", () => {
  expect(findProgram("no-such-program-of-this-name")).toBeUndefined();
});
