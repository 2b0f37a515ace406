import { accessSync, constants, readdirSync } from "node:fs";
import path from "node:path";
import type { Gauge } from "./gauge.ts";
import { LineSource, type LineCommand } from "./line-source.ts";
import { nvidiaSmiCommand, parseGpuLine } from "./nvidia-smi.ts";
import { parseTpuLine, tpuMetricsCommand } from "./tpu-metrics.ts";

const INTERVAL_MS = 500;

/** What is looked at to find accelerators; a test gives its own. */
export interface AcceleratorPlaces {
  /** Folders that hold programs. */
  readonly programs: readonly string[];
  /** Where the kernel lists devices. */
  readonly devices: string;
  /** A Python that has libtpu; undefined: nothing is asked of TPUs. */
  readonly tpuPython: string | undefined;
}

const realPlaces = (): AcceleratorPlaces => ({
  programs: (process.env["PATH"] ?? "").split(path.delimiter),
  devices: "/dev",
  tpuPython: process.env["DLRM_TPU_PYTHON"],
});

/**
 * Gauges of the accelerators of this machine, none where there are none: of NVIDIA GPUs `gpu<i>UtilizationPercent`,
 * `gpu<i>MemoryBytes` and `gpu<i>PowerW` by nvidia-smi, for the whole GPU, whoever uses it; of TPUs `tpu<i>DutyCyclePercent` and
 * `tpu<i>MemoryBytes` by libtpu, if `DLRM_TPU_PYTHON` names a Python that has it (not yet run on a TPU).
 *
 * Each program runs beside until its gauge is closed, which the monitor does when it stops.
 */
export function acceleratorGauges(places: AcceleratorPlaces = realPlaces()): Gauge[] {
  const devices = namesIn(places.devices);
  const gpus = devices.filter((name) => /^nvidia\d+$/.test(name)).length;
  const tpus = devices.filter((name) => /^accel\d+$/.test(name)).length;
  const nvidiaSmi = gpus === 0 ? undefined : findProgram("nvidia-smi", places.programs);
  const gauges: Gauge[] = [];
  if (nvidiaSmi !== undefined) {
    const names = eachOf(gpus, (i) => [`gpu${i}UtilizationPercent`, `gpu${i}MemoryBytes`, `gpu${i}PowerW`]);
    gauges.push(
      ...gaugesOf(nvidiaSmiCommand(INTERVAL_MS, nvidiaSmi), names, (line, set) => {
        const reading = parseGpuLine(line);
        if (reading === undefined) return;
        set(`gpu${reading.gpu}UtilizationPercent`, reading.utilizationPercent);
        set(`gpu${reading.gpu}MemoryBytes`, reading.memoryBytes);
        set(`gpu${reading.gpu}PowerW`, reading.powerW);
      }),
    );
  }
  if (tpus > 0 && places.tpuPython !== undefined) {
    const names = eachOf(tpus, (i) => [`tpu${i}DutyCyclePercent`, `tpu${i}MemoryBytes`]);
    gauges.push(
      ...gaugesOf(tpuMetricsCommand(INTERVAL_MS, places.tpuPython), names, (line, set) => {
        for (const { chip, dutyCyclePercent, memoryBytes } of parseTpuLine(line)) {
          set(`tpu${chip}DutyCyclePercent`, dutyCyclePercent);
          set(`tpu${chip}MemoryBytes`, memoryBytes);
        }
      }),
    );
  }
  return gauges;
}

type SetValue = (name: string, value: number | undefined) => void;

/** Gauges that show what one program said last; the first of them ends it. */
function gaugesOf(
  command: LineCommand,
  names: readonly string[],
  onLine: (line: string, set: SetValue) => void,
): Gauge[] {
  const values = new Map<string, number>();
  const set: SetValue = (name, value) => {
    if (value === undefined) values.delete(name);
    else values.set(name, value);
  };
  const source = new LineSource(command, (line) => onLine(line, set));
  return names.map((name, index) => ({
    name,
    read: () => values.get(name),
    ...(index === 0 ? { close: () => source.close() } : {}),
  }));
}

function eachOf(count: number, names: (index: number) => string[]): string[] {
  return Array.from({ length: count }, (_, index) => names(index)).flat();
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function findProgram(name: string, folders: readonly string[]): string | undefined {
  return folders
    .map((folder) => path.join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
