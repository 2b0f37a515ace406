/**
 * `nx run batcher:bench`: plays the policies against simulated devices, measures the overhead an item, and writes
 * bench-results/batcher.json. `--docs` also writes the table and the chart of docs/. `--quick` takes fewer requests.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chartOf, short } from "./chart.ts";
import type { GridFigures, GridPoint } from "./grid.ts";
import { BUDGET_MS, figuresOf, playGrid } from "./grid.ts";
import { measureOverhead } from "./overhead.ts";
import { measureSharedCost } from "./shared-cost.ts";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    docs: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
  },
});

const root = new URL("../../../", import.meta.url);
const progress = (text: string): void => void process.stderr.write(`${text}\n`);

progress("overhead of an item in one thread");
const overhead = await measureOverhead(values.quick ? 300 : 2000);
progress("cost of an item between two threads");
const shared = await measureSharedCost(values.quick ? 5000 : 40_000);
const points = await playGrid({
  requests: values.quick ? 500 : 2000,
  seed: Number(values.seed),
  onPoint: ({ device, requestSize, loadName, throughputRatio, p99Ratio }, done, total) =>
    progress(
      `simulation ${done}/${total}: ${device.name}, ${requestSize} a request, ${loadName}: ` +
        `throughput × ${throughputRatio.toFixed(3)}, p99 × ${p99Ratio.toFixed(3)}`,
    ),
});
const grid = figuresOf(points);
const figures = {
  ...grid,
  inthread_ns_per_item: overhead.batcherNsPerItem,
  ...(overhead.dataloaderNsPerItem === undefined
    ? {}
    : {
        dataloader_ns_per_item: overhead.dataloaderNsPerItem,
        inthread_vs_dataloader: overhead.batcherNsPerItem / overhead.dataloaderNsPerItem,
      }),
  shared_alone_us: shared.aloneMicros,
  shared_batched_us: shared.batchedMicros,
  shared_wake_us: shared.wakeMicros,
  shared_alone_round_trip_us: shared.aloneRoundTripMicros,
};
const results = {
  figures,
  environment: { runtime: `node ${process.version}`, platform: `${process.platform} ${process.arch}` },
  settings: { quick: values.quick, seed: Number(values.seed) },
  points: points.map(({ device, requestSize, loadName, results: byPolicy, throughputRatio, p99Ratio }) => ({
    device: device.name,
    requestSize,
    load: loadName,
    throughputRatio,
    p99Ratio,
    results: byPolicy,
  })),
};
await mkdir(new URL("bench-results/", root), { recursive: true });
const file = new URL("bench-results/batcher.json", root);
await writeFile(file, `${JSON.stringify(results, undefined, 2)}\n`);
console.log(JSON.stringify(figures, undefined, 2));
progress(`written: ${fileURLToPath(file)}`);
if (values.docs) {
  const docs = new URL("packages/batcher/docs/", root);
  await mkdir(docs, { recursive: true });
  await writeFile(new URL("policies.svg", docs), chartOf(points));
  await writeFile(new URL("policies.md", docs), tableOf(points, grid));
  progress("written: docs/policies.md and docs/policies.svg");
}

function tableOf(all: readonly GridPoint[], worst: GridFigures): string {
  const rows = all.map(({ device, requestSize, loadName, results: r, throughputRatio, p99Ratio }) =>
    [
      device.name,
      requestSize,
      loadName,
      ...(["off", "window", "adaptive"] as const).map(
        (policy) => `${short(r[policy].itemsPerS)} / ${r[policy].p99Ms.toFixed(2)}`,
      ),
      throughputRatio.toFixed(3),
      p99Ratio.toFixed(3),
    ].join(" | "),
  );
  return `# The batching policies, simulated

Made by \`node --conditions=@dlrm/source packages/batcher/bench/run.ts --docs\`; do not edit.

The real batcher on a fake clock, with a device that runs one batch at a time, for a fixed time and a time for each item of
the batch padded to a power of two, of 4096 at most. Closed loop: C callers that each come back 60 µs ± 30 % after their answer.
Open loop: Poisson arrivals, at a share of what the device can do with each request alone ("off") or with full batches
("full"). \`off\` and \`window\` (1 ms) always pad up. A cell is items a second / p99 in ms; the last two columns compare
\`adaptive\` with the better of the others, for each measure by itself.

- Lowest throughput ratio: ${worst.adaptive_worst_throughput_ratio.toFixed(3)}; highest p99 ratio: ${worst.adaptive_worst_p99_ratio.toFixed(3)}.
- Best closed-loop throughput at p99 ≤ ${BUDGET_MS} ms, to the better of the others, geometric mean over devices and request
  sizes: ${worst.adaptive_budget_gain.toFixed(3)}.

![Closed-loop throughput by callers](./policies.svg)

| device | request | load | off | window | adaptive | throughput × | p99 × |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.map((row) => `| ${row} |`).join("\n")}
`;
}
