import type { LineCommand } from "./line-source.ts";

/** Of one GPU at one moment; a value that the driver does not tell is left out. */
export interface GpuReading {
  readonly gpu: number;
  /** Share of the last sample period with a kernel running, percent. */
  readonly utilizationPercent?: number;
  readonly memoryBytes?: number;
  readonly powerW?: number;
}

/** Prints a line a GPU every `intervalMs`, for as long as it runs. */
export function nvidiaSmiCommand(intervalMs: number, file = "nvidia-smi"): LineCommand {
  const fields = "index,utilization.gpu,memory.used,power.draw";
  return { file, args: [`--query-gpu=${fields}`, "--format=csv,noheader,nounits", `--loop-ms=${intervalMs}`] };
}

/** A line of {@link nvidiaSmiCommand}, such as `0, 87, 73485, 612.30`; undefined if it is none. Memory is in MiB there. */
export function parseGpuLine(line: string): GpuReading | undefined {
  const parts = line.split(",").map((part) => part.trim());
  const [index = "", utilization = "", memory = "", power = ""] = parts;
  if (parts.length !== 4 || !/^\d+$/.test(index)) return undefined;
  // `[N/A]` or `[Not Supported]`, where the driver does not tell.
  const number = (text: string): number | undefined => (/^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined);
  const [utilizationPercent, memoryMib, powerW] = [number(utilization), number(memory), number(power)];
  return {
    gpu: Number(index),
    ...(utilizationPercent === undefined ? {} : { utilizationPercent }),
    ...(memoryMib === undefined ? {} : { memoryBytes: memoryMib * 2 ** 20 }),
    ...(powerW === undefined ? {} : { powerW }),
  };
}
