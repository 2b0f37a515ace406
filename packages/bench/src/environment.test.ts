import { afterEach, expect, it, vi } from "vitest";
import { cpuInstructionSets } from "./cpu-instruction-sets.ts";
import { describeGatherKernel } from "./gather-kernel.ts";
import { describeEnvironment, describeMachine, describePython, renderEnvironment } from "./environment.ts";

afterEach(() => vi.unstubAllEnvs());

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
  // Somebody may commit meanwhile.
  const { gitCommit: _, ...machine } = await describeMachine();
  expect(environment).toMatchObject(machine);
});

it("says nothing of a Python that isn't there", async () => {
  expect(await describePython("/no/such/python")).toEqual({});
});

it("says nothing of the gather kernel where no file can be written", async () => {
  expect(await describeGatherKernel("/no/such/folder")).toEqual({});
});

it("tells of the plugin that PJRT_PLUGIN_PATH names", async () => {
  vi.stubEnv("PJRT_PLUGIN_PATH", "/opt/plugin.so");
  expect(await describeMachine()).toMatchObject({ pjrtPluginPath: "/opt/plugin.so" });
  vi.stubEnv("PJRT_PLUGIN_PATH", "");
  expect(await describeMachine()).not.toHaveProperty("pjrtPluginPath");
});
