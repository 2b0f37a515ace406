import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** One result: `value` is the median of `samples`, which are in the order they were measured. */
export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly samples: readonly number[];
}

const RESULTS_FILE = fileURLToPath(new URL("../../../bench-results/accelerator.json", import.meta.url));

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function figure(name: string, unit: string, samples: readonly number[]): Figure {
  const value = median(samples);
  console.error(`${name}: ${value.toPrecision(4)} ${unit}`);
  return { name, value, unit, samples };
}

/** Writes the results; with `keep`, others that the file has stay. */
export async function writeFigures(figures: readonly Figure[], keep: boolean): Promise<string> {
  const before = keep ? await readFile(RESULTS_FILE, "utf8").catch(() => "[]") : "[]";
  const others = (JSON.parse(before) as Figure[]).filter(({ name }) => !figures.some((other) => other.name === name));
  await mkdir(path.dirname(RESULTS_FILE), { recursive: true });
  await writeFile(RESULTS_FILE, `${JSON.stringify([...others, ...figures], null, 2)}\n`);
  return RESULTS_FILE;
}
