/**
 * `nx run batcher:bench [-- --help]`: plays the policies against simulated devices, measures the overhead of an item, and writes
 * bench-results/batcher.json, and beside it the points of the simulation. What else it takes is in
 * options.ts.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { chartOf } from "./chart.ts";
import { costsPage } from "./costs-page.ts";
import type { Figure } from "./figures.ts";
import { gridFigures, overheadFigures, sharedFigures } from "./figures.ts";
import { figuresOf, playGrid } from "./grid.ts";
import { optionsOf, USAGE } from "./options.ts";
import { measureOverheadInProcesses } from "./overhead.ts";
import { policiesPage } from "./policies-page.ts";
import { measureOnOneCore, measureSharedCost } from "./shared-cost.ts";

const options = optionsOf(process.argv.slice(2));
if (options === "help") {
  console.log(USAGE);
  process.exit(0);
}
if ("problem" in options) {
  console.error(options.problem);
  process.exit(2);
}
const { quick, only, seed } = options;

const root = new URL("../../../", import.meta.url);
const docs = new URL("packages/batcher/docs/", root);
const results = new URL("bench-results/", root);
const resultsFile = new URL("batcher.json", results);
const progress = (text: string): void => void process.stderr.write(`${text}\n`);
await mkdir(results, { recursive: true });

const figures: Figure[] = [];
if (only !== "simulation") {
  progress("overhead of an item in one thread");
  const overhead = measureOverheadInProcesses(quick ? 1000 : 5000);
  progress("cost of an item between two threads");
  const batches = quick ? 6000 : 36_000;
  const costs = [
    ...overheadFigures(overhead),
    ...sharedFigures(await measureSharedCost(batches), ""),
    ...sharedFigures(measureOnOneCore(batches) ?? [], "_one_core"),
  ];
  figures.push(...costs);
  if (options.docs) {
    await writeFile(new URL("costs.md", docs), costsPage(costs));
    progress("written: docs/costs.md");
  }
}
if (only !== "costs") {
  const points = await playGrid({
    requests: quick ? 500 : 2000,
    seed,
    onPoint: ({ device, requestSize, loadName, throughputRatio, p99Ratio }, done, total) =>
      progress(
        `simulation ${done}/${total}: ${device.name}, ${requestSize} a request, ${loadName}: ` +
          `throughput × ${throughputRatio.toFixed(3)}, p99 × ${p99Ratio.toFixed(3)}`,
      ),
  });
  const grid = figuresOf(points);
  figures.push(...gridFigures(grid));
  const details = {
    environment: { runtime: `node ${process.version}`, platform: `${process.platform} ${process.arch}` },
    settings: { quick, seed },
    points: points.map(({ device, requestSize, loadName, results: byPolicy, throughputRatio, p99Ratio }) => ({
      device: device.name,
      requestSize,
      load: loadName,
      throughputRatio,
      p99Ratio,
      results: byPolicy,
    })),
  };
  await writeFile(new URL("batcher.details.json", results), `${JSON.stringify(details, undefined, 2)}\n`);
  if (options.docs) {
    await writeFile(new URL("policies.svg", docs), chartOf(points));
    await writeFile(new URL("policies.md", docs), policiesPage(points, grid));
    progress("written: docs/policies.md and docs/policies.svg");
  }
}
const kept =
  only === undefined ? [] : (await earlierFigures()).filter(({ name }) => !figures.some((f) => f.name === name));
await writeFile(resultsFile, `${JSON.stringify([...figures, ...kept], undefined, 2)}\n`);
for (const { name, value, unit, samples } of figures) {
  console.log(`${name}: ${value.toFixed(3)} ${unit} (${samples.length})`);
}
progress(`written: ${fileURLToPath(resultsFile)}`);

async function earlierFigures(): Promise<readonly Figure[]> {
  try {
    const earlier: unknown = JSON.parse(await readFile(resultsFile, "utf8"));
    return Array.isArray(earlier) ? (earlier as Figure[]) : [];
  } catch {
    return [];
  }
}
