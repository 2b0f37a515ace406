import path from "node:path";
import { expect, test } from "vitest";
import { arm } from "./arm.ts";
import { platformExtras } from "./python-arm.ts";
import { pythonEnvironment, pythonSourceDir } from "./python-environment.ts";
import { findPython } from "./python-interpreter.ts";

const search = findPython();
const launch = {
  bundleDir: "/bundles/dcnv2-6m",
  host: "127.0.0.1",
  port: 8500,
  platform: "sim",
  numThreads: 0,
  numProcesses: 2,
  maxBatchSize: 4096,
  cacheDir: "/cache",
} as const;

test("the arm says who it is", () => {
  expect({ name: arm.name, family: arm.family, platforms: arm.platforms }).toStrictEqual({
    name: "py",
    family: "python",
    platforms: ["cpu", "cuda", "tpu", "sim"],
  });
});

test.skipIf(!search.found)(
  "the command runs the prepared interpreter (skipped when no Python >= 3.11 is found)",
  () => {
    const { python } = pythonEnvironment({ cacheDir: "/cache" });
    const command = arm.command(launch);
    expect(command.file).toBe(python);
    expect(command.args).toStrictEqual([
      "-m",
      "dlrm_py.server",
      "--bundle",
      "/bundles/dcnv2-6m",
      "--host",
      "127.0.0.1",
      "--port",
      "8500",
      "--platform",
      "sim",
      "--num-threads",
      "8",
      "--device-threads",
      "0",
      "--max-batch-size",
      "4096",
      "--compilation-cache-dir",
      path.resolve("/cache/jax-compilations"),
    ]);
    expect(command.env["PYTHONPATH"]).toBe(pythonSourceDir);
  },
);

test.skipIf(!search.found)("asked threads are the dense network's (skipped when no Python >= 3.11 is found)", () => {
  const { args } = arm.command({ ...launch, numThreads: 3 });
  expect(args[args.indexOf("--device-threads") + 1]).toBe("3");
  expect(args[args.indexOf("--num-threads") + 1]).toBe("8");
});

test("only accelerators need more packages", () => {
  expect([platformExtras("cpu"), platformExtras("sim"), platformExtras("cuda"), platformExtras("tpu")]).toStrictEqual([
    [],
    [],
    ["cuda"],
    ["tpu"],
  ]);
});

test("availability follows the interpreter", async () => {
  const availability = await arm.availability("sim");
  expect(availability).toStrictEqual(
    search.found ? { available: true } : { available: false, missing: search.missing },
  );
});
