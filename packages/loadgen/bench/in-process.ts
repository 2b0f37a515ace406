/**
 * One load process's share, run in this process so that it can be profiled:
 * `node --cpu-prof --conditions=@dlrm/source bench/in-process.ts [lean|node] [examples] [C] [connections] [seconds]`.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { LatencyHistogram } from "../src/latency-histogram.ts";
import { fillLoadOptions } from "../src/load-options.ts";
import { LoadShare } from "../src/load-share.ts";
import { nowMicros } from "../src/monotonic-clock.ts";
import { planShares } from "../src/share-plan.ts";

const HOT_SIZES = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1];
const [transport = "lean", requestSize = "1", concurrency = "64", connections = "64", seconds = "4"] =
  process.argv.slice(2);

const server = fork(fileURLToPath(new URL("client-cost.ts", import.meta.url)), ["serve"], {
  execArgv: ["--conditions=@dlrm/source"],
});
const port = await new Promise<number>((resolve) => server.once("message", (message) => resolve(Number(message))));
await LatencyHistogram.prepare();
const options = fillLoadOptions({
  host: "127.0.0.1",
  port,
  shape: {
    denseFeatures: 13,
    features: HOT_SIZES.map((hotSize, i) => ({ name: `sparse_${i}`, vocabularySize: 850_000, hotSize })),
  },
  requestSize: Number(requestSize),
  mode: { kind: "closed", concurrency: Number(concurrency) },
  connections: Number(connections),
  processes: 1,
  warmupS: 1,
  durationS: Number(seconds),
  transport: transport === "node" ? "node" : "lean",
});
const [plan] = planShares(options, 1);
if (plan === undefined) throw new Error("no share planned");
const share = await LoadShare.prepare(options, plan);
const before = process.cpuUsage();
const report = await share.run(nowMicros() + 1000);
const { user, system } = process.cpuUsage(before);
server.disconnect();
console.log(
  `${transport} B ${requestSize} C ${concurrency} connections ${connections}: ${(report.cpuMicros / report.completed).toFixed(1)} µs a call ` +
    `(user ${((100 * user) / (user + system)).toFixed(0)} %), ${report.completed} calls, errors ${JSON.stringify(report.errors)}`,
);
