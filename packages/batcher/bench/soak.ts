/**
 * `nx run batcher:soak [-- --items 10000000]`: items of random sizes through the shared ring by three producer threads, some of
 * them cancelled, some with deadlines. Fails unless each is answered exactly once, with its own result or the reason why it has
 * none, and memory is flat: the resident set of the last quarter, and each producer's heap after a forced collection at seven
 * eighths, no more than a tenth above those of the second quarter and at two eighths.
 *
 * V8 doubles a thread's young generation from time to time, up to 128 MiB each, whatever the program keeps; in minutes it does not
 * get there. It is bounded here, so that the resident set says what is kept.
 */
import { parseArgs } from "node:util";
import { stressRing } from "../test/ring-stress.ts";
import { median } from "./overhead.ts";

const PRODUCERS = 3;
const SAMPLE_MS = 250;
const MOST_GROWTH = 1.1;
const YOUNG_GENERATION_MB = 12;

const { values } = parseArgs({
  options: { items: { type: "string", default: "10000000" }, seed: { type: "string", default: "1" } },
});
const items = Number(values.items);
if (!Number.isSafeInteger(items) || items < PRODUCERS) {
  console.error(`--items: expected a whole number from ${PRODUCERS}, received ${values.items}`);
  process.exit(2);
}
const rssBytes: number[] = [];
const timer = setInterval(() => rssBytes.push(process.memoryUsage.rss()), SAMPLE_MS);
const startMs = performance.now();
const { producers, consumer } = await stressRing({
  producers: PRODUCERS,
  items,
  outstanding: 200,
  maxSize: 16,
  maxBatchSize: 256,
  slots: 4,
  cancelShare: 0.02,
  expireShare: 0.02,
  seed: Number(values.seed),
  maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
});
const elapsedS = (performance.now() - startMs) / 1000;
clearInterval(timer);

const outcomes: Record<string, number> = {};
for (const producer of producers) {
  for (const [code, count] of Object.entries(producer.outcomes)) {
    outcomes[code] = (outcomes[code] ?? 0) + count;
  }
}
const submitted = PRODUCERS * Math.ceil(items / PRODUCERS);
const settled = producers.reduce((sum, producer) => sum + producer.settled, 0);
const wrong = producers.reduce((sum, producer) => sum + producer.wrong, 0);
const quarter = Math.max(1, rssBytes.length >> 2);
const growth = median(rssBytes.slice(-quarter)) / median(rssBytes.slice(quarter, 2 * quarter + 1));
const heapGrowth = Math.max(
  ...producers.map(({ heapBytes }) => (heapBytes[7] ?? Infinity) / (heapBytes[2] ?? Number.NaN)),
);
const { ok = 0, cancelled = 0, deadline_exceeded: expired = 0, ...others } = outcomes;
const problems = [
  ...(settled === submitted ? [] : [`${settled} of ${submitted} items were answered`]),
  ...(wrong === 0 ? [] : [`${wrong} results were not their item's own`]),
  ...(ok + cancelled + expired === settled ? [] : [`other outcomes: ${JSON.stringify(others)}`]),
  ...(consumer.stats.failedBatches === 0 ? [] : [`${consumer.stats.failedBatches} batches failed`]),
  ...(growth <= MOST_GROWTH ? [] : [`the resident set grew to ${growth.toFixed(2)} times`]),
  ...(heapGrowth <= MOST_GROWTH ? [] : [`a producer's heap grew to ${heapGrowth.toFixed(2)} times`]),
];
console.log(
  JSON.stringify({
    items: submitted,
    seconds: Math.round(elapsedS),
    ok,
    cancelled,
    expired,
    wrong,
    rssMiB: mib(median(rssBytes.slice(-quarter))),
    rssGrowth: Number(growth.toFixed(3)),
    heapGrowth: Number(heapGrowth.toFixed(3)),
    rssMiBByEighth: Array.from({ length: 8 }, (_, i) =>
      mib(rssBytes[Math.floor(((i + 1) * rssBytes.length) / 8) - 1] ?? 0),
    ),
    producerHeapMiBByEighth: producers.map(({ heapBytes }) =>
      heapBytes.map((bytes) => Number((bytes / 2 ** 20).toFixed(2))),
    ),
    batches: consumer.stats.batches,
  }),
);
for (const problem of problems) {
  console.error(problem);
}
process.exitCode = problems.length === 0 ? 0 : 1;

function mib(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
