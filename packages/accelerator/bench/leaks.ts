import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { figure, type Figure } from "./figures.ts";
import type { LeakCase } from "./leak-process.ts";

// Memory that opening and closing leaves behind, and how much of that plain threads and plain onnxruntime-node leave.

const PROGRAM = fileURLToPath(new URL("leak-process.ts", import.meta.url));

/** Bytes a cycle of the second half of the samples, by the median of the slopes of all pairs: a jump at one sample is no growth. */
function slope(samples: readonly { readonly cycle: number; readonly bytes: number }[]): number {
  const late = samples.slice(Math.floor(samples.length / 2));
  const slopes = late.flatMap((a, i) => late.slice(i + 1).map((b) => (b.bytes - a.bytes) / (b.cycle - a.cycle)));
  return slopes.toSorted((a, b) => a - b)[slopes.length >> 1]!;
}

/**
 * Each case in a process of its own in each round: what an earlier one gave back would hide what a later one leaves. With one arena
 * of the allocator, which gives back at once what it can, so that what is left is what is held.
 */
async function bytesACycle(which: LeakCase, cycles: number, modelPath: string): Promise<number> {
  const args = [...process.execArgv, "--expose-gc", PROGRAM, which, String(cycles), modelPath];
  const env = { ...process.env, MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "0" };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  const samples = JSON.parse(stdout) as { cycle: number; bytes: number }[];
  const mib = samples.map(({ bytes }) => (bytes / 2 ** 20).toFixed(1));
  const bytes = slope(samples);
  console.error(`${which}: ${cycles} opened and closed, MiB ${mib.join(" ")}: ${bytes.toFixed(0)} bytes a cycle`);
  return bytes;
}

/** Pairs of ours and what it is made of. Both of a pair at the same time, as it is memory that is looked at. */
async function pairFigures(
  ours: LeakCase,
  bare: LeakCase,
  options: { readonly cycles: number; readonly rounds: number; readonly modelPath: string },
): Promise<Figure[]> {
  const { cycles, rounds, modelPath } = options;
  const [ofOurs, ofBare]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const measured = await Promise.all([ours, bare].map((which) => bytesACycle(which, cycles, modelPath)));
    ofOurs.push(measured[0]!);
    ofBare.push(measured[1]!);
  }
  return [
    figure(`${ours}_open_close_bytes`, "bytes a cycle", ofOurs),
    figure(`${bare}_open_close_bytes`, "bytes a cycle", ofBare),
    figure(
      `${ours}_beyond_${bare}_bytes`,
      "bytes a cycle",
      ofOurs.map((bytes, round) => bytes - ofBare[round]!),
    ),
  ];
}

export async function leakFigures(cycles: number, rounds: number, modelPath: string): Promise<Figure[]> {
  const options = { cycles, rounds, modelPath };
  return [
    ...(await pairFigures("onnxruntime", "bare_onnxruntime_thread", options)),
    ...(await pairFigures("simulated", "empty_thread", options)),
  ];
}
