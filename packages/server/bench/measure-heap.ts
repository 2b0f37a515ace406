import { type Bench, closedLoop, load } from "./bench.ts";
import { serve } from "./served.ts";

/** Some hundred collections of the young generation. */
const HEAP_S = 6;

/** What a request leaves to the garbage collector, and how often that has to work: counts, which a busy machine hardly changes. */
export async function measureHeap(bench: Bench): Promise<void> {
  const server = await serve({ bundle: bench.bundle, cpus: bench.serverCpu, args: [], observes: "collections" });
  const point = closedLoop(1, 128);
  await load(bench, server, point);
  const samples = { allocated: [] as number[], promoted: [] as number[], young: [] as number[], full: [] as number[] };
  for (let repeat = 0; repeat < bench.repeats; repeat++) {
    await server.collections();
    const { requestsPerS } = await load(bench, server, point, { durationS: HEAP_S, warmupS: 0 });
    const { allocatedBytes, promotedBytes, youngCollections, fullCollections } = await server.collections();
    const requests = requestsPerS * HEAP_S;
    samples.allocated.push(allocatedBytes / requests);
    samples.promoted.push(promotedBytes / requests);
    samples.young.push((youngCollections / requests) * 100_000);
    samples.full.push((fullCollections / requests) * 100_000);
  }
  await server.stop();
  bench.figures.record("heap_bytes_per_request", "bytes", samples.allocated);
  bench.figures.record("heap_promoted_bytes_per_request", "bytes that outlive two collections", samples.promoted);
  bench.figures.record("young_gcs_per_100k", "collections per 100,000 requests", samples.young);
  bench.figures.record("full_gcs_per_100k", "collections per 100,000 requests", samples.full);
}
