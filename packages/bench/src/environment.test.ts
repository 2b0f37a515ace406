import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { cpuInstructionSets } from "./cpu-instruction-sets.ts";
import { describeGatherKernel } from "./gather-kernel.ts";
import { describeEnvironment, describePython, readCpuTicks, renderEnvironment, stealFraction } from "./environment.ts";

it("reads the time of all CPUs and what was stolen", () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), "bench-stat-")), "stat");
  writeFileSync(file, "cpu  100 5 20 300 10 1 4 60 77 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  expect(readCpuTicks(file)).toEqual({ all: 500, steal: 60 });
  expect(readCpuTicks(`${file}-none`)).toBeUndefined();
});

it("gives the stolen share of the time between", () => {
  expect(stealFraction({ all: 100, steal: 10 }, { all: 300, steal: 20 })).toBe(0.05);
  expect(stealFraction({ all: 100, steal: 10 }, { all: 100, steal: 10 })).toBeUndefined();
  expect(stealFraction(undefined, { all: 1, steal: 0 })).toBeUndefined();
});

it("renders one value a line, with those of objects under their name", () => {
  expect(renderEnvironment({ node: "24.1.0", packages: { jax: "0.7.0", numpy: "2.0" }, cpuCount: 2 })).toBe(
    "node: 24.1.0\npackages.jax: 0.7.0\npackages.numpy: 2.0\ncpuCount: 2\n",
  );
});

it("describes this machine, with what the engine uses", async () => {
  const environment = await describeEnvironment(undefined);
  expect(environment.node).toBe(process.versions.node);
  expect(environment.cpuCount).toBeGreaterThan(0);
  expect(environment.cpuInstructionSets).toBe(cpuInstructionSets());
  expect(environment.gatherKernel).toEqual(expect.any(String));
  expect(environment.packages).toEqual({ "onnxruntime-node": expect.stringMatching(/^\d+\.\d+/) });
  expect(environment).not.toHaveProperty("python");
});

it("says nothing of a Python that isn't there", async () => {
  expect(await describePython("/no/such/python")).toEqual({});
});

it("says nothing of the gather kernel where no file can be written", async () => {
  expect(await describeGatherKernel("/no/such/folder")).toEqual({});
});
