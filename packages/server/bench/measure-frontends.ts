import { type Bench, closedLoop, load } from "./bench.ts";
import type { Measured } from "./load.ts";
import { serve } from "./served.ts";

/** How a server is run for `measureFrontends`; by the name of its figures. */
interface FrontendCase {
  readonly frontends: number;
  readonly cpus: string;
}

/**
 * Two frontends beside one, on two CPUs, and one on one CPU; the client has the same two CPUs in all cases. What server and
 * client use of them stands beside each throughput: where they take both, the machine allows no more.
 */
export async function measureFrontends(bench: Bench): Promise<void> {
  const cpuList = [...new Set([bench.serverCpu, bench.clientCpu])];
  const cpus = cpuList.join(",");
  const cases: Readonly<Record<string, FrontendCase>> = {
    frontends_1_on_1: { frontends: 1, cpus: bench.serverCpu },
    frontends_1: { frontends: 1, cpus },
    frontends_2: { frontends: 2, cpus },
  };
  const runs = new Map<string, Measured[]>(Object.keys(cases).map((name) => [name, []]));
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    for (const [name, { frontends, cpus: serverCpus }] of Object.entries(cases)) {
      const server = await serve({ bundle: bench.bundle, cpus: serverCpus, args: ["--frontends", String(frontends)] });
      runs.get(name)?.push(await load(bench, server, closedLoop(1, 256), { cpus }));
      await server.stop();
    }
  }
  const ratesOf = (name: string): number[] => (runs.get(name) as Measured[]).map(({ examplesPerS }) => examplesPerS);
  for (const [name, measured] of runs) {
    bench.figures.record(`${name}_examples_per_s`, "examples/s", ratesOf(name));
    bench.figures.record(
      `${name}_server_cores`,
      `of ${cpuList.length}`,
      measured.map(({ cpuMicros, examplesPerS }) => (cpuMicros * examplesPerS) / 1e6),
    );
    bench.figures.record(
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
    bench.figures.record(
      name,
      "ratio",
      two.map((rate, repeat) => rate / (one[repeat] as number)),
    );
  }
}
