import { afterEach, expect, it, vi } from "vitest";
import type { ArmLaunchOptions } from "@dlrm/arm-contract";
import { fakeArm } from "../test/fake-arm.ts";
import { benchCommandText, serverCommand } from "./commands.ts";
import type { Machine } from "./machine.ts";
import { resolveSettings } from "./settings.ts";

const machine: Machine = { cpus: [0, 1], memoryBytes: 1e9, taskset: undefined };
const settingsOf = (flags: Record<string, string>) =>
  resolveSettings(flags, { machine, presets: ["dcnv2-lite"], arms: [fakeArm("engine")], currentDir: "/x" });

afterEach(() => vi.unstubAllEnvs());

it.each([
  [{}, undefined],
  [{ device: "pjrt:/opt/plugin.so" }, "pjrt:/opt/plugin.so"],
])("arms are told of the device that was asked for: %j", (flags, device) => {
  let told: ArmLaunchOptions | undefined;
  const arm = fakeArm("engine");
  const settings = settingsOf(flags);
  serverCommand(settings, machine, { ...arm, command: (options) => ((told = options), arm.command(options)) }, 8500);
  expect(told).toMatchObject({ port: 8500, platform: "cpu", device });
  expect(benchCommandText(settings).includes("--device pjrt:/opt/plugin.so")).toBe(device !== undefined);
});

it.each([
  [{}, "/a b/plugin.so", "PJRT_PLUGIN_PATH='/a b/plugin.so' dlrm-bench --platform cpu "],
  [{}, "", "dlrm-bench --platform cpu "],
  [{}, undefined, "dlrm-bench --platform cpu "],
  [{ device: "onnxruntime" }, "/plugin.so", "PJRT_PLUGIN_PATH=/plugin.so dlrm-bench --platform cpu "],
  [{ device: "pjrt:/opt/plugin.so" }, "/plugin.so", "dlrm-bench --platform cpu "],
  [{ platform: "sim" }, "/plugin.so", "dlrm-bench --platform sim "],
  [{ platform: "sim", device: "pjrt" }, "/plugin.so", "PJRT_PLUGIN_PATH=/plugin.so dlrm-bench --platform sim "],
])("the command that repeats a run names the plugin that the environment named: %j, %s", (flags, plugin, text) => {
  vi.stubEnv("PJRT_PLUGIN_PATH", plugin);
  expect(benchCommandText(settingsOf({ preset: "dcnv2-lite", ...flags })).startsWith(text)).toBe(true);
});
