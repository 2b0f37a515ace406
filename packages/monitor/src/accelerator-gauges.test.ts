import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { acceleratorGauges } from "./accelerator-gauges.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "monitor-gauges-"));
  for (const folder of ["dev", "bin"]) mkdirSync(path.join(root, folder));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const places = (tpuPython?: string) => ({
  programs: [path.join(root, "none"), path.join(root, "bin")],
  devices: path.join(root, "dev"),
  tpuPython,
});

/** A program that prints these lines and then stays. */
function program(name: string, ...lines: string[]): string {
  const file = path.join(root, "bin", name);
  writeFileSync(file, `#!/bin/sh\n${lines.map((line) => `echo '${line}'`).join("\n")}\nexec sleep 600\n`);
  chmodSync(file, 0o755);
  return file;
}

test("a machine without accelerators, or without their programs, has no gauges", () => {
  expect(acceleratorGauges(places("/nonexistent"))).toEqual([]);
  writeFileSync(path.join(root, "dev", "nvidia0"), "");
  writeFileSync(path.join(root, "dev", "nvidiactl"), "");
  writeFileSync(path.join(root, "dev", "accel0"), "");
  expect(acceleratorGauges(places())).toEqual([]);
});

test("gauges show what nvidia-smi and libtpu said last, and end them", async () => {
  for (const name of ["nvidia0", "nvidia1", "accel0"]) writeFileSync(path.join(root, "dev", name), "");
  program("nvidia-smi", "0, 50, 10, 100.0", "1, 60, 20, [N/A]", "0, 70, 30, 110.0");
  const python = program("python", '{"duty_cycle_pct": ["1.5"], "hbm_capacity_usage": ["7"]}');
  const gauges = acceleratorGauges(places(python));
  const values = (): Record<string, number | undefined> =>
    Object.fromEntries(gauges.map((gauge) => [gauge.name, gauge.read()]));
  await vi.waitFor(
    () =>
      expect(values()).toEqual({
        gpu0UtilizationPercent: 70,
        gpu0MemoryBytes: 30 * 2 ** 20,
        gpu0PowerW: 110,
        gpu1UtilizationPercent: 60,
        gpu1MemoryBytes: 20 * 2 ** 20,
        gpu1PowerW: undefined,
        tpu0DutyCyclePercent: 1.5,
        tpu0MemoryBytes: 7,
      }),
    { timeout: 30_000 },
  );
  for (const gauge of gauges) gauge.close?.();
});
