import { expect, it } from "vitest";
import type { ArmLaunchOptions } from "@dlrm/arm-contract";
import { fakeArm } from "../test/fake-arm.ts";
import { benchCommandText, serverCommand } from "./commands.ts";
import type { Machine } from "./machine.ts";
import { resolveSettings } from "./settings.ts";

const machine: Machine = { cpus: [0, 1], memoryBytes: 1e9, taskset: undefined };
const settingsOf = (flags: Record<string, string>) =>
  resolveSettings(flags, { machine, presets: ["dcnv2-lite"], arms: [fakeArm("engine")], currentDir: "/x" });

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
