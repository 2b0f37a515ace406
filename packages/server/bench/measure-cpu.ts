import { type Bench, closedLoop, load } from "./bench.ts";
import { median } from "./figures.ts";
import type { Measured } from "./load.ts";
import { serve } from "./served.ts";

/** A point whose p99 is above this does not count, milliseconds. */
const MAX_P99_MS = 20;
/** Callers to try for each request size. */
const CALLERS: Readonly<Record<number, readonly number[]>> = { 1: [64, 128, 192], 16: [8, 16], 128: [1, 2, 4] };

/** CPU an example at the best number of callers with p99 ≤ 20 ms, for each request size. */
export async function measureCpu(bench: Bench): Promise<void> {
  const server = await serve({ bundle: bench.bundle, cpus: bench.serverCpu, args: [] });
  for (const [size, callers] of Object.entries(CALLERS)) {
    let best: { readonly callers: number; readonly runs: readonly Measured[]; readonly cpuMicros: number } | undefined;
    for (const concurrency of callers) {
      const runs: Measured[] = [];
      for (let repeat = 0; repeat < bench.repeats; repeat++) {
        runs.push(await load(bench, server, closedLoop(Number(size), concurrency)));
      }
      const cpuMicros = median(runs.map((run) => run.cpuMicros));
      const isFast = median(runs.map((run) => run.latency.p99Ms)) <= MAX_P99_MS;
      if (isFast && (best === undefined || cpuMicros < best.cpuMicros))
        best = { callers: concurrency, runs, cpuMicros };
    }
    if (best === undefined) {
      console.log(`engine_us_b${size}: no point with p99 ≤ ${MAX_P99_MS} ms`);
      continue;
    }
    const { runs } = best;
    bench.figures.record(
      `engine_us_b${size}`,
      `µs an example (C ${best.callers})`,
      runs.map((run) => run.cpuMicros),
    );
    bench.figures.record(
      `engine_examples_per_s_b${size}`,
      "examples/s",
      runs.map((run) => run.examplesPerS),
    );
    bench.figures.record(
      `engine_p99_ms_b${size}`,
      "ms",
      runs.map((run) => run.latency.p99Ms),
    );
  }
  await server.stop();
}
