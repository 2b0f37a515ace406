import { type Bench, closedLoop, load } from "./bench.ts";
import { serve, type Served } from "./served.ts";
import { type IdleCpu, idleWaitMs, queueTailMs, stolenMs, watchIdleCpu } from "./stalls.ts";

export interface OpenLoops {
  /** Parts of the closed loop's throughput, each an open loop of its own. */
  readonly loads: readonly number[];
  /** Of one open loop. */
  readonly durationS: number;
  readonly connections: number;
}

/** The one whose figures have no number in their names: `open_p50_ms`, and of half of the throughput `open_50_p50_ms`. */
const USUAL_LOAD = 0.8;
/** An open loop reaches its full rate in half of this; what is left over from it must be over when the window begins. */
const OPEN_WARMUP_S = 6;
/** The CPUs are looked at for so long before an open loop, and after it, seconds. */
const IDLE_S = 10;

/** Tail latency and pauses at parts of the throughput of as many callers as p99 ≤ 20 ms allows. */
export async function measureOpen(bench: Bench, { loads, ...options }: OpenLoops): Promise<void> {
  const server = await serve({ bundle: bench.bundle, cpus: bench.serverCpu, args: [], observes: "pauses" });
  for (const part of loads) await measureLoad(bench, server, part, options);
  await server.stop();
}

/** One open loop; and, before and after, with the server idle, what tail the two CPUs alone have. */
async function measureLoad(
  bench: Bench,
  server: Served,
  part: number,
  { durationS, connections }: Omit<OpenLoops, "loads">,
): Promise<void> {
  const peak = await load(bench, server, closedLoop(1, 128));
  const idle = [await watchCpus(bench)];
  await server.pausesMs();
  const point = { requestSize: 1, connections, load: { ratePerS: part * peak.requestsPerS } };
  const stolenBeforeMs = stolenMs(bench.serverCpu);
  const open = await load(bench, server, point, { durationS, warmupS: OPEN_WARMUP_S });
  const { latency, errors } = open;
  const stolen = stolenMs(bench.serverCpu) - stolenBeforeMs;
  const pausesMs = await server.pausesMs();
  idle.push(await watchCpus(bench));
  const prefix = part === USUAL_LOAD ? "" : `${Math.round(part * 100)}_`;
  const record = (name: string, unit: string, samples: readonly number[]): void =>
    bench.figures.record(name.replace("_", `_${prefix}`), unit, samples);
  record("open_rate", "requests/s", [open.requestsPerS]);
  record("open_us", "µs an example", [open.cpuMicros]);
  record("open_closed_loop_us", "µs an example (C 128, just before)", [peak.cpuMicros]);
  record("open_server_busy", "of its CPU", [(open.cpuMicros * open.examplesPerS) / 1e6]);
  record("open_client_busy", "of its CPU", [open.clientCpuFraction]);
  record("open_send_lag_p99_ms", "ms", [open.sendLag.p99Ms]);
  record("open_send_lag_max_ms", "ms", [open.sendLag.maxMs]);
  record("open_p50_ms", "ms", [latency.p50Ms]);
  record("open_p999_ms", "ms", [latency.p999Ms]);
  record("open_p999_over_p50", "ratio", [latency.p999Ms / latency.p50Ms]);
  record(
    "open_floor_p999_ms",
    "ms (a server that never pauses, on the server's CPU as it is when idle; before and after)",
    idle.map(({ server: cpu }) => queueTailMs(cpu, open.requestsPerS, open.cpuMicros / 1000, 0.999)),
  );
  record("open_steady_cpu_p999_ms", "ms (the same on a CPU that is always there)", [
    queueTailMs({ totalMs: IDLE_S * 1000, stalls: [] }, open.requestsPerS, open.cpuMicros / 1000, 0.999),
  ]);
  record(
    "idle_p999_ms",
    "ms (server's and client's CPU, before and after)",
    idle.flatMap((cpus) => [cpus.server, cpus.client].map((cpu) => idleWaitMs(cpu, 0.999))),
  );
  record("open_stolen", "of the server's CPU, by the host", [stolen / 1000 / (durationS + OPEN_WARMUP_S)]);
  record("open_errors", "requests", [Object.values(errors).reduce((sum, count) => sum + count, 0)]);
  record("gc_pause_max_ms", "ms", [Math.max(0, ...pausesMs)]);
  record("gc_pauses", "pauses", [pausesMs.length]);
}

async function watchCpus(bench: Bench): Promise<{ readonly server: IdleCpu; readonly client: IdleCpu }> {
  const [server, client] = await Promise.all([
    watchIdleCpu(bench.serverCpu, IDLE_S),
    watchIdleCpu(bench.clientCpu, IDLE_S),
  ]);
  return { server, client };
}
