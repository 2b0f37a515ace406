import { type Bench, closedLoop, load } from "./bench.ts";
import { serve, type Served } from "./served.ts";

const REQUEST_SIZES = [1, 16, 128];
/** One caller makes some thousand requests in this time, seconds; the server is warm after the first runs. */
const FIRST_S = 2;
const FIRST_WARMUP_S = 0.5;
const FIRST_STARTS = 3;
const FIRST_ROUNDS = 3;

/**
 * One caller: what a request takes that meets no other, with adaptive batching and with none. They differ by less than one run
 * does from the next, and than one process from the next that is started the same way: many short runs take turns, each is compared
 * with its neighbours, all servers are started anew some times, and a third one, the same as the second, tells what differences mean.
 */
export async function measureFirst(bench: Bench): Promise<void> {
  const policies = { adaptive: "adaptive", off: "off", off_again: "off" } as const;
  type Name = keyof typeof policies;
  const samples = new Map<string, number[]>();
  const note = (name: string, value: number): void => void samples.set(name, [...(samples.get(name) ?? []), value]);
  for (let start = 0; start < FIRST_STARTS; start++) {
    const servers = new Map<Name, Served>();
    for (const name of rotated(Object.keys(policies) as Name[], start)) {
      servers.set(
        name,
        await serve({ bundle: bench.bundle, cpus: bench.serverCpu, args: ["--batching", policies[name]] }),
      );
    }
    for (const size of REQUEST_SIZES) {
      const point = closedLoop(size, 1);
      for (let round = 0; round < FIRST_ROUNDS; round++) {
        const p50Ms = new Map<Name, number>();
        for (const name of rotated([...servers.keys()], round)) {
          const options = { durationS: FIRST_S, warmupS: FIRST_WARMUP_S };
          p50Ms.set(name, (await load(bench, servers.get(name) as Served, point, options)).latency.p50Ms);
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
  for (const [name, values] of samples)
    bench.figures.record(name, name.includes("over") ? "ratio of neighbours" : "ms", values);
}

/** The same in another order: whichever is first, is so as often as the others. */
function rotated<T>(values: readonly T[], by: number): readonly T[] {
  const at = by % values.length;
  return [...values.slice(at), ...values.slice(0, at)];
}
