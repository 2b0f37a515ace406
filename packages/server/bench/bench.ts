import type { Figures } from "./figures.ts";
import { type LoadOptions, type LoadPoint, loadServer, type Measured } from "./load.ts";
import type { Served } from "./served.ts";

/** What all measurements are given. */
export interface Bench {
  readonly figures: Figures;
  readonly bundle: string;
  readonly repeats: number;
  readonly durationS: number;
  readonly serverCpu: string;
  readonly clientCpu: string;
}

const WARMUP_S = 2;
const CALLERS_PER_CONNECTION = 16;

/** Callers of one client share connections, as a gRPC channel's do. */
export function closedLoop(requestSize: number, concurrency: number): LoadPoint {
  const connections = Math.max(1, Math.ceil(concurrency / CALLERS_PER_CONNECTION));
  return { requestSize, connections, load: { concurrency } };
}

/** One run, with a line of what came of it on stderr; defaults are the benchmark's. */
export async function load(
  { clientCpu, durationS }: Bench,
  server: Served,
  point: LoadPoint,
  options: Partial<LoadOptions> = {},
): Promise<Measured> {
  const measured = await loadServer(server, point, { cpus: clientCpu, warmupS: WARMUP_S, durationS, ...options });
  const { examplesPerS, cpuMicros, latency, clientCpuFraction, errors } = measured;
  console.error(
    `  B ${point.requestSize} ${JSON.stringify(point.load)}: ${Math.round(examplesPerS)} examples/s, ` +
      `${cpuMicros.toFixed(1)} µs an example, p50 ${latency.p50Ms.toFixed(2)}, p99 ${latency.p99Ms.toFixed(2)}, ` +
      `p99.9 ${latency.p999Ms.toFixed(2)} ms, client ${Math.round(clientCpuFraction * 100)} %, ${JSON.stringify(errors)}`,
  );
  return measured;
}
