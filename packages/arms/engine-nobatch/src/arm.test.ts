import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { arm } from "./arm.ts";

const launch = {
  bundleDir: "/bundles/model",
  host: "127.0.0.1",
  port: 8600,
  platform: "cpu",
  numThreads: 3,
  numProcesses: 1,
  maxBatchSize: 4096,
  cacheDir: "/cache",
} as const;

test("the server is started by this Node, with the arm's batching and the platform's device", () => {
  const { file, args, env } = arm.command(launch);
  expect(file).toBe(process.execPath);
  expect(env).toEqual({});
  const cli = args.findIndex((argument) => /cli\.[jt]s$/u.test(argument));
  expect(args.slice(cli + 1)).toEqual([
    ...["--bundle", "/bundles/model", "--host", "127.0.0.1", "--port", "8600", "--device", "onnxruntime"],
    ...["--device-threads", "3", "--batching", "off", "--max-batch-size", "4096"],
  ]);
  expect(arm.command({ ...launch, platform: "sim" }).args).toContain("simulated");
});

test("the command is one that dlrm-serve understands", async () => {
  const { file, args } = arm.command({ ...launch, port: 0, bundleDir: "/nonexistent" });
  const child = spawn(file, args, { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  // 1: it tried to start; 2 would be wrong usage.
  expect(await once(child, "close")).toEqual([1, null]);
  expect(log).toContain("error: /nonexistent is not a bundle");
});

test("a TPU is whatever PJRT plugin is found, and one that is named stands in for it", async () => {
  expect(arm.command({ ...launch, platform: "tpu" }).args).toContain("pjrt");
  expect(arm.command({ ...launch, platform: "tpu", device: "pjrt:/plugin.so" }).args).toContain("pjrt:/plugin.so");
  expect(await arm.availability("sim")).toEqual({ available: true });
  expect(await arm.availability("cpu")).toEqual({ available: true });
  expect(await arm.availability("tpu", "pjrt:/no/such/plugin.so")).toMatchObject({ available: false });
});
