import { expect, it } from "vitest";
import { machineChanges } from "./machine-changes.ts";

const machine = {
  gitCommit: "a1",
  node: "24.0.0",
  kernel: "Linux 6.1",
  cpuModel: "Xeon",
  cpuCount: 2,
  memoryBytes: 8e9,
};

it("names all that differs, and what is not known any more or was not", () => {
  const { cpuModel: _, ...now } = { ...machine, gitCommit: "a1 with changes", cpuInstructionSets: "avx2", cpuCount: 4 };
  expect(machineChanges(machine, now)).toEqual([
    "gitCommit: it was a1, now a1 with changes",
    "cpuModel: it was Xeon, now unknown",
    "cpuInstructionSets: it was unknown, now avx2",
    "cpuCount: it was 2, now 4",
  ]);
});

it("finds none on the same machine, whatever memory the kernel has kept", () => {
  expect(machineChanges(machine, { ...machine, memoryBytes: 7.9e9 })).toEqual([]);
});

it("names another plugin than the one before", () => {
  expect(machineChanges({ ...machine, pjrtPluginPath: "/a.so" }, { ...machine, pjrtPluginPath: "/b.so" })).toEqual([
    "pjrtPluginPath: it was /a.so, now /b.so",
  ]);
});
