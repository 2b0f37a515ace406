/**
 * `nx run server:bench -- [--only cpu,heap,first,open,frontends] [--repeats 3] [--duration 3] [--server-cpu 0] [--client-cpu 1]`:
 * what the whole engine costs with `dcnv2-6m` and the simulated accelerator. The server is pinned to one CPU, all its
 * threads together, and the load generator to another; medians. Writes bench-results/server.json.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { type LoadPoint, loadServer, type Measured } from "./load.ts";
import { FROM_SOURCE, ROOT, serve, type Served } from "./served.ts";
import { type IdleCpu, idleWaitMs, queueTailMs, stolenMs, watchIdleCpu } from "./stalls.ts";

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", default: "cpu,heap,first,open,frontends" },
    bundle: { type: "string", default: path.join(ROOT, "bench-work/server/dcnv2-6m") },
    repeats: { type: "string", default: "3" },
    duration: { type: "string", default: "3" },
    "open-duration": { type: "string", default: "60" },
    "open-connections": { type: "string", default: "8" },
    "server-cpu": { type: "string", default: "0" },
    "client-cpu": { type: "string", default: "1" },
    out: { type: "string", default: path.join(ROOT, "bench-results/server.json") },
  },
});
const only = new Set(flags.only.split(","));
const repeats = Number(flags.repeats);
const durationS = Number(flags.duration);
const serverCpu = flags["server-cpu"];
const clientCpu = flags["client-cpu"];
const WARMUP_S = 2;
/** An open loop reaches its full rate in half of this; what is left over from it must be over when the window begins. */
const OPEN_WARMUP_S = 6;
/** Of an open loop: by default as many as the closed loop of 128 callers has. */
const openConnections = Number(flags["open-connections"]);
/** One caller makes some thousand requests in this time, seconds; the server is warm after the first runs. */
const FIRST_S = 2;
const FIRST_WARMUP_S = 0.5;
const FIRST_STARTS = 3;
const FIRST_ROUNDS = 3;
/** The CPUs are looked at for so long before an open loop, and after it, seconds. */
const IDLE_S = 10;
/** Some hundred collections of the young generation. */
const HEAP_S = 6;
/** A point whose p99 is above this does not count, milliseconds. */
const MAX_P99_MS = 20;

/** Callers to try for each request size; callers of one client share connections, as a gRPC channel's do. */
const CALLERS: Readonly<Record<number, readonly number[]>> = { 1: [64, 128, 192], 16: [8, 16], 128: [1, 2, 4] };
const CALLERS_PER_CONNECTION = 16;

interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly samples: readonly number[];
}

/** Figures that are not measured now stay as they are. */
const figures = new Map<string, Figure>(
  (existsSync(flags.out) ? (JSON.parse(readFileSync(flags.out, "utf8")) as Figure[]) : []).map((each) => [
    each.name,
    each,
  ]),
);

function record(name: string, unit: string, samples: readonly number[]): number {
  const value = median(samples);
  figures.set(name, { name, value, unit, samples });
  console.log(`${name}: ${value.toPrecision(4)} ${unit}`);
  return value;
}

function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

function closedLoop(requestSize: number, concurrency: number): LoadPoint {
  const connections = Math.max(1, Math.ceil(concurrency / CALLERS_PER_CONNECTION));
  return { requestSize, connections, load: { concurrency } };
}

async function load(
  server: Served,
  point: LoadPoint,
  { cpus = clientCpu, seconds = durationS, warmupS = WARMUP_S } = {},
): Promise<Measured> {
  const measured = await loadServer(server, point, { cpus, warmupS, durationS: seconds });
  const { examplesPerS, cpuMicros, latency, clientCpuFraction, errors } = measured;
  console.error(
    `  B ${point.requestSize} ${JSON.stringify(point.load)}: ${Math.round(examplesPerS)} examples/s, ` +
      `${cpuMicros.toFixed(1)} µs an example, p50 ${latency.p50Ms.toFixed(2)}, p99 ${latency.p99Ms.toFixed(2)}, ` +
      `p99.9 ${latency.p999Ms.toFixed(2)} ms, client ${Math.round(clientCpuFraction * 100)} %, ${JSON.stringify(errors)}`,
  );
  return measured;
}

/** CPU an example at the best number of callers with p99 ≤ 20 ms, for each request size. */
async function measureCpu(server: Served): Promise<void> {
  for (const [size, callers] of Object.entries(CALLERS)) {
    let best: { readonly callers: number; readonly runs: readonly Measured[]; readonly cpuMicros: number } | undefined;
    for (const concurrency of callers) {
      const runs: Measured[] = [];
      for (let repeat = 0; repeat < repeats; repeat++) {
        runs.push(await load(server, closedLoop(Number(size), concurrency)));
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
    record(
      `engine_us_b${size}`,
      `µs an example (C ${best.callers})`,
      runs.map((run) => run.cpuMicros),
    );
    record(
      `engine_examples_per_s_b${size}`,
      "examples/s",
      runs.map((run) => run.examplesPerS),
    );
    record(
      `engine_p99_ms_b${size}`,
      "ms",
      runs.map((run) => run.latency.p99Ms),
    );
  }
}

/** What a request leaves to the garbage collector, and how often that has to work: counts, which a busy machine hardly changes. */
async function measureHeap(bundle: string): Promise<void> {
  const server = await serve({ bundle, cpus: serverCpu, args: [], observes: "collections" });
  const point = closedLoop(1, 128);
  await load(server, point);
  const samples = { allocated: [] as number[], promoted: [] as number[], young: [] as number[], full: [] as number[] };
  for (let repeat = 0; repeat < repeats; repeat++) {
    await server.collections();
    const { requestsPerS } = await load(server, point, { seconds: HEAP_S, warmupS: 0 });
    const { allocatedBytes, promotedBytes, youngCollections, fullCollections } = await server.collections();
    const requests = requestsPerS * HEAP_S;
    samples.allocated.push(allocatedBytes / requests);
    samples.promoted.push(promotedBytes / requests);
    samples.young.push((youngCollections / requests) * 100_000);
    samples.full.push((fullCollections / requests) * 100_000);
  }
  await server.stop();
  record("heap_bytes_per_request", "bytes", samples.allocated);
  record("heap_promoted_bytes_per_request", "bytes that outlive two collections", samples.promoted);
  record("young_gcs_per_100k", "collections per 100,000 requests", samples.young);
  record("full_gcs_per_100k", "collections per 100,000 requests", samples.full);
}

/**
 * One caller: what a request takes that meets no other, with adaptive batching and with none. They differ by less than one run
 * does from the next, and than one process from the next that is started the same way: many short runs take turns, each is compared
 * with its neighbours, all servers are started anew some times, and a third one, the same as the second, tells what differences mean.
 */
async function measureFirst(bundle: string): Promise<void> {
  const policies = { adaptive: "adaptive", off: "off", off_again: "off" } as const;
  type Name = keyof typeof policies;
  const samples = new Map<string, number[]>();
  const note = (name: string, value: number): void => void samples.set(name, [...(samples.get(name) ?? []), value]);
  for (let start = 0; start < FIRST_STARTS; start++) {
    const servers = new Map<Name, Served>();
    for (const name of rotated(Object.keys(policies) as Name[], start)) {
      servers.set(name, await serve({ bundle, cpus: serverCpu, args: ["--batching", policies[name]] }));
    }
    for (const size of Object.keys(CALLERS)) {
      const point = closedLoop(Number(size), 1);
      for (let round = 0; round < FIRST_ROUNDS; round++) {
        const p50Ms = new Map<Name, number>();
        for (const name of rotated([...servers.keys()], round)) {
          const options = { seconds: FIRST_S, warmupS: FIRST_WARMUP_S };
          p50Ms.set(name, (await load(servers.get(name) as Served, point, options)).latency.p50Ms);
        }
        const of = (name: Name): number => p50Ms.get(name) as number;
        note(`c1_p50_ms_adaptive_b${size}`, of("adaptive"));
        note(`c1_p50_ms_off_b${size}`, of("off"));
        note(`c1_p50_adaptive_over_off_b${size}`, (2 * of("adaptive")) / (of("off") + of("off_again")));
        note(`c1_p50_off_over_off_b${size}`, of("off_again") / of("off"));
      }
    }
    for (const server of servers.values()) await server.stop();
  }
  for (const [name, values] of samples) record(name, name.includes("over") ? "ratio of neighbours" : "ms", values);
}

/** The same in another order: whichever is first, is so as often as the others. */
function rotated<T>(values: readonly T[], by: number): readonly T[] {
  const at = by % values.length;
  return [...values.slice(at), ...values.slice(0, at)];
}

/**
 * Tail latency and pauses at 80 % of the throughput of as many callers as p99 ≤ 20 ms allows; and, before and after, with the
 * server idle, what tail the two CPUs alone have.
 */
async function measureOpen(bundle: string): Promise<void> {
  const server = await serve({ bundle, cpus: serverCpu, args: [], observes: "collections" });
  const peak = await load(server, closedLoop(1, 128));
  const idle = [await watchCpus()];
  await server.collections();
  const point: LoadPoint = {
    requestSize: 1,
    connections: openConnections,
    load: { ratePerS: 0.8 * peak.requestsPerS },
  };
  const seconds = Number(flags["open-duration"]);
  const stolenBeforeMs = stolenMs(serverCpu);
  const open = await load(server, point, { seconds, warmupS: OPEN_WARMUP_S });
  const { latency, errors } = open;
  const stolen = stolenMs(serverCpu) - stolenBeforeMs;
  const { pausesMs } = await server.collections();
  idle.push(await watchCpus());
  await server.stop();
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
  record("open_stolen", "of the server's CPU, by the host", [stolen / 1000 / (seconds + OPEN_WARMUP_S)]);
  record("open_errors", "requests", [Object.values(errors).reduce((sum, count) => sum + count, 0)]);
  record("gc_pause_max_ms", "ms", [Math.max(0, ...pausesMs)]);
  record("gc_pauses", "pauses", [pausesMs.length]);
}

async function watchCpus(): Promise<{ readonly server: IdleCpu; readonly client: IdleCpu }> {
  const [server, client] = await Promise.all([watchIdleCpu(serverCpu, IDLE_S), watchIdleCpu(clientCpu, IDLE_S)]);
  return { server, client };
}

/** How a server is run for `measureFrontends`; by the name of its figures. */
interface FrontendCase {
  readonly frontends: number;
  readonly cpus: string;
}

/**
 * Two frontends beside one, on two CPUs, and one on one CPU; the client has the same two CPUs in all cases. What server and
 * client use of them stands beside each throughput: where they take both, the machine allows no more.
 */
async function measureFrontends(bundle: string): Promise<void> {
  const cpuList = [...new Set([serverCpu, clientCpu])];
  const cpus = cpuList.join(",");
  const cases: Readonly<Record<string, FrontendCase>> = {
    frontends_1_on_1: { frontends: 1, cpus: serverCpu },
    frontends_1: { frontends: 1, cpus },
    frontends_2: { frontends: 2, cpus },
  };
  const runs = new Map<string, Measured[]>(Object.keys(cases).map((name) => [name, []]));
  for (let repeat = 0; repeat < repeats; repeat++) {
    for (const [name, { frontends, cpus: serverCpus }] of Object.entries(cases)) {
      const server = await serve({ bundle, cpus: serverCpus, args: ["--frontends", String(frontends)] });
      runs.get(name)?.push(await load(server, closedLoop(1, 256), { cpus }));
      await server.stop();
    }
  }
  const ratesOf = (name: string): number[] => (runs.get(name) as Measured[]).map(({ examplesPerS }) => examplesPerS);
  for (const [name, measured] of runs) {
    record(`${name}_examples_per_s`, "examples/s", ratesOf(name));
    record(
      `${name}_server_cores`,
      `of ${cpuList.length}`,
      measured.map(({ cpuMicros, examplesPerS }) => (cpuMicros * examplesPerS) / 1e6),
    );
    record(
      `${name}_client_cores`,
      `of ${cpuList.length}`,
      measured.map(({ clientCpuFraction }) => clientCpuFraction * cpuList.length),
    );
  }
  const two = ratesOf("frontends_2");
  for (const [name, other] of [
    ["frontends_speedup", "frontends_1"],
    ["frontends_speedup_over_1_on_1", "frontends_1_on_1"],
  ] as const) {
    const one = ratesOf(other);
    record(
      name,
      "ratio",
      two.map((rate, repeat) => rate / (one[repeat] as number)),
    );
  }
}

if (!existsSync(flags.bundle)) {
  mkdirSync(path.dirname(flags.bundle), { recursive: true });
  const cli = path.join(ROOT, "packages/model/src/cli.ts");
  spawnSync(process.execPath, [...FROM_SOURCE, cli, "export", "--preset", "dcnv2-6m", "--out", flags.bundle], {
    stdio: "inherit",
  });
}
if (only.has("cpu")) {
  const server = await serve({ bundle: flags.bundle, cpus: serverCpu, args: [] });
  await measureCpu(server);
  await server.stop();
}
if (only.has("heap")) await measureHeap(flags.bundle);
if (only.has("first")) await measureFirst(flags.bundle);
if (only.has("open")) await measureOpen(flags.bundle);
if (only.has("frontends")) await measureFrontends(flags.bundle);
mkdirSync(path.dirname(flags.out), { recursive: true });
writeFileSync(flags.out, `${JSON.stringify([...figures.values()], undefined, 2)}\n`);
