import { expect, test } from "vitest";
import { nvidiaSmiCommand, parseGpuLine } from "./nvidia-smi.ts";

test("the command asks for what the parser reads", () => {
  expect(nvidiaSmiCommand(250)).toEqual({
    file: "nvidia-smi",
    args: [
      "--query-gpu=index,utilization.gpu,memory.used,power.draw",
      "--format=csv,noheader,nounits",
      "--loop-ms=250",
    ],
  });
});

test.each([
  ["0, 87, 73485, 612.30", { gpu: 0, utilizationPercent: 87, memoryBytes: 73_485 * 2 ** 20, powerW: 612.3 }],
  ["7, 0, 4, 29.51\r", { gpu: 7, utilizationPercent: 0, memoryBytes: 4 * 2 ** 20, powerW: 29.51 }],
  ["1, 12, 300, [N/A]", { gpu: 1, utilizationPercent: 12, memoryBytes: 300 * 2 ** 20 }],
  ["2, [Not Supported], [N/A], [N/A]", { gpu: 2 }],
])("%s", (line, reading) => {
  expect(parseGpuLine(line)).toEqual(reading);
});

test.each([
  "",
  "No devices were found",
  "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
  "index, utilization.gpu [%], memory.used [MiB], power.draw [W]",
  "0, 1, 2",
])("%j is no reading", (line) => {
  expect(parseGpuLine(line)).toBeUndefined();
});
