/**
 * `nx run server:bench -- [--only cpu,heap,first,open,frontends] [--repeats 3] [--duration 3] [--server-cpu 0] [--client-cpu 1]
 * [--open-load 0.8] [--open-duration 60] [--open-connections 8]`: what the whole engine costs with `dcnv2-6m` and the simulated
 * accelerator. The server is pinned to one CPU, all its threads together, and the load generator to another; medians. Writes
 * bench-results/server.json.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import type { Bench } from "./bench.ts";
import { Figures } from "./figures.ts";
import { measureCpu } from "./measure-cpu.ts";
import { measureFirst } from "./measure-first.ts";
import { measureFrontends } from "./measure-frontends.ts";
import { measureHeap } from "./measure-heap.ts";
import { measureOpen } from "./measure-open.ts";
import { FROM_SOURCE, ROOT } from "./served.ts";

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", default: "cpu,heap,first,open,frontends" },
    bundle: { type: "string", default: path.join(ROOT, "bench-work/server/dcnv2-6m") },
    repeats: { type: "string", default: "3" },
    duration: { type: "string", default: "3" },
    "open-load": { type: "string", default: "0.8" },
    "open-duration": { type: "string", default: "60" },
    "open-connections": { type: "string", default: "8" },
    "server-cpu": { type: "string", default: "0" },
    "client-cpu": { type: "string", default: "1" },
    out: { type: "string", default: path.join(ROOT, "bench-results/server.json") },
  },
});
const bench: Bench = {
  figures: new Figures(flags.out),
  bundle: flags.bundle,
  repeats: Number(flags.repeats),
  durationS: Number(flags.duration),
  serverCpu: flags["server-cpu"],
  clientCpu: flags["client-cpu"],
};
const measurements: Readonly<Record<string, () => Promise<void>>> = {
  cpu: () => measureCpu(bench),
  heap: () => measureHeap(bench),
  first: () => measureFirst(bench),
  open: () =>
    measureOpen(bench, {
      loads,
      durationS: Number(flags["open-duration"]),
      connections: Number(flags["open-connections"]),
    }),
  frontends: () => measureFrontends(bench),
};
const only = flags.only.split(",");
const unknown = only.filter((name) => !Object.hasOwn(measurements, name));
if (unknown.length > 0) {
  throw new Error(`--only: no ${unknown.join(", ")}; there are ${Object.keys(measurements).join(", ")}`);
}
const loads = flags["open-load"].split(",").map(Number);
if (!loads.every((part) => part > 0 && part <= 1)) {
  throw new Error(`--open-load: parts of the closed loop's throughput, such as 0.5,0.8, not ${flags["open-load"]}`);
}
if (!existsSync(flags.bundle)) {
  mkdirSync(path.dirname(flags.bundle), { recursive: true });
  const cli = path.join(ROOT, "packages/model/src/cli.ts");
  spawnSync(process.execPath, [...FROM_SOURCE, cli, "export", "--preset", "dcnv2-6m", "--out", flags.bundle], {
    stdio: "inherit",
  });
}
for (const [name, measure] of Object.entries(measurements)) if (only.includes(name)) await measure();
bench.figures.write();
