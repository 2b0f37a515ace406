import path from "node:path";
import { findPython, pythonEnvironment, pythonSourceDir } from "@dlrm/arm-py";
import { expect, test } from "vitest";
import { arm } from "./arm.ts";

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
    name: "py-mp-batch",
    family: "python",
    platforms: ["cpu", "cuda", "tpu", "sim"],
  });
});

test.skipIf(!search.found)("the command is that of this arm (skipped when no Python >= 3.11 is found)", () => {
  const command = arm.command(launch);
  expect(command.file).toBe(pythonEnvironment({ cacheDir: "/cache" }).python);
  expect(command.args).toStrictEqual([
    ...["-m", "dlrm_py.server"],
    ...["--bundle", "/bundles/dcnv2-6m"],
    ...["--host", "127.0.0.1"],
    ...["--port", "8500"],
    ...["--platform", "sim"],
    ...["--num-threads", "64"],
    ...["--device-threads", "0"],
    ...["--num-processes", "2"],
    ...["--batching", "window"],
    ...["--batch-timeout-micros", "1000"],
    ...["--max-batch-size", "4096"],
    ...["--compilation-cache-dir", path.resolve("/cache/jax-compilations")],
  ]);
  expect(command.env["PYTHONPATH"]).toBe(pythonSourceDir);
});

test.skipIf(!search.found)("at least one frontend is started (skipped when no Python >= 3.11 is found)", () => {
  const { args } = arm.command({ ...launch, numProcesses: 0 });
  expect(args[args.indexOf("--num-processes") + 1]).toBe("1");
});
