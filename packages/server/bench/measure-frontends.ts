import { type Bench, load } from "./bench.ts";
import type { LoadPoint, Measured } from "./load.ts";
import { serve, type Served } from "./served.ts";

/** Servers that share the load, by the CPUs and frontends of each. */
type Arrangement = readonly { readonly cpus: string; readonly frontends: number }[];

/** What is offered to each arrangement, with one start of the servers. */
interface Setting {
  readonly args: readonly string[];
  readonly points: Readonly<Record<string, LoadPoint>>;
}

const SETTINGS: readonly Setting[] = [
  { args: [], points: { b1_c256: { requestSize: 1, connections: 16, load: { concurrency: 256 } } } },
  {
    // So quick that it is the frontends which limit.
    args: ["--simulated-fixed-micros", "100", "--simulated-micros-per-example", "1"],
    points: {
      quick_b1_c1024: { requestSize: 1, connections: 64, load: { concurrency: 1024 } },
      quick_b128_c16: { requestSize: 128, connections: 16, load: { concurrency: 16 } },
    },
  },
];

/** All servers of an arrangement together. */
interface Sample {
  readonly examplesPerS: number;
  readonly serverCores: number;
  readonly clientCores: number;
}

/**
 * Two frontends beside one, on two CPUs, and one on one CPU. The client has the same two CPUs in all cases, so that they are no two
 * for the server: `apart` says what is left of them. It is two servers that share nothing, not even a device, on a CPU each, with half
 * of the callers each.
 */
export async function measureFrontends(bench: Bench): Promise<void> {
  const cpuList = [...new Set([bench.serverCpu, bench.clientCpu])];
  const cpus = cpuList.join(",");
  const arrangements: Readonly<Record<string, Arrangement>> = {
    "1_on_1": [{ cpus: bench.serverCpu, frontends: 1 }],
    "1": [{ cpus, frontends: 1 }],
    "2": [{ cpus, frontends: 2 }],
    apart: cpuList.map((cpu) => ({ cpus: cpu, frontends: 1 })),
  };
  const samples = new Map<string, Sample[]>();
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    for (const { args, points } of SETTINGS) {
      for (const [arrangement, parts] of Object.entries(arrangements)) {
        const servers: Served[] = [];
        for (const { cpus: serverCpus, frontends } of parts) {
          servers.push(
            await serve({ bundle: bench.bundle, cpus: serverCpus, args: [...args, "--frontends", String(frontends)] }),
          );
        }
        for (const [point, offered] of Object.entries(points)) {
          const measured = await Promise.all(
            servers.map((server) => load(bench, server, part(offered, servers.length), { cpus })),
          );
          const name = `frontends_${point}_${arrangement}`;
          samples.set(name, [...(samples.get(name) ?? []), together(measured, cpuList.length)]);
        }
        for (const server of servers) await server.stop();
      }
    }
  }
  const { figures } = bench;
  for (const [name, of] of samples) {
    const take = (value: (sample: Sample) => number): number[] => of.map((sample) => value(sample));
    figures.record(
      `${name}_examples_per_s`,
      "examples/s",
      take(({ examplesPerS }) => examplesPerS),
    );
    const unit = `of ${cpuList.length}`;
    figures.record(
      `${name}_server_cores`,
      unit,
      take(({ serverCores }) => serverCores),
    );
    figures.record(
      `${name}_client_cores`,
      unit,
      take(({ clientCores }) => clientCores),
    );
  }
  for (const point of SETTINGS.flatMap(({ points }) => Object.keys(points))) {
    const over = (one: string, other: string): number[] => {
      const [a, b] = [one, other].map((arrangement) => samples.get(`frontends_${point}_${arrangement}`) as Sample[]);
      return (a as Sample[]).map(({ examplesPerS }, repeat) => examplesPerS / (b as Sample[])[repeat]!.examplesPerS);
    };
    figures.record(`frontends_${point}_speedup`, "ratio", over("2", "1"));
    figures.record(`frontends_${point}_speedup_over_1_on_1`, "ratio", over("2", "1_on_1"));
    figures.record(`frontends_${point}_apart_over_1_on_1`, "ratio", over("apart", "1_on_1"));
    figures.record(`frontends_${point}_2_over_apart`, "ratio", over("2", "apart"));
  }
}

/** One server's part of the callers and the connections. */
function part({ requestSize, connections, load: offered }: LoadPoint, servers: number): LoadPoint {
  if (!("concurrency" in offered)) throw new Error("expected a closed loop");
  return {
    requestSize,
    connections: connections / servers,
    load: { concurrency: offered.concurrency / servers },
  };
}

function together(measured: readonly Measured[], cpuCount: number): Sample {
  const sum = (value: (one: Measured) => number): number => measured.reduce((total, one) => total + value(one), 0);
  return {
    examplesPerS: sum(({ examplesPerS }) => examplesPerS),
    serverCores: sum(({ cpuMicros, examplesPerS }) => (cpuMicros * examplesPerS) / 1e6),
    clientCores: sum(({ clientCpuFraction }) => clientCpuFraction * cpuCount),
  };
}
