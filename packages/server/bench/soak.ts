/**
 * `node bench/soak.ts [--requests 20000000] [--frontends 1] [--bundle DIR] [--server-cpu 0] [--client-cpu 1]`: a server under
 * load until it has answered so many requests, with clients killed in mid-request throughout. Prints memory, after full
 * collections, and open files as they go, and the slope of each over the second half. Ends with code 1 if a request failed that
 * no kill explains, or if the heaps or the resident set are more than a tenth larger in the last quarter than in the second.
 *
 * V8 makes a thread's young generation larger from time to time, whatever the program keeps. It is bounded here, so that the
 * resident set says what is kept.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { closeSample, growth, type Sample, slopePerMillion } from "./soak-samples.ts";
import { FROM_SOURCE, ROOT, serve } from "./served.ts";

const { values: flags } = parseArgs({
  options: {
    requests: { type: "string", default: "20000000" },
    frontends: { type: "string", default: "1" },
    bundle: { type: "string", default: path.join(ROOT, "bench-work/server/dcnv2-6m") },
    "server-cpu": { type: "string", default: "0" },
    "client-cpu": { type: "string", default: "1" },
  },
});
/** How long a client lives until it is killed, seconds. */
const CLIENT_S = 10;
const MOST_GROWTH = 1.1;
const SEMI_SPACE_MB = 4;
/** Fewer have no quarters. */
const LEAST_SAMPLES = 8;

const server = await serve({
  bundle: flags.bundle,
  cpus: flags["server-cpu"],
  args: ["--frontends", flags.frontends, "--admin-port", "0"],
  observes: "heaps",
  nodeFlags: ["--expose-gc", `--max-semi-space-size=${SEMI_SPACE_MB}`],
});
const samples: Sample[] = [];
while (samples.length < LEAST_SAMPLES || (samples.at(-1)?.requests ?? 0) < Number(flags.requests)) {
  const client = spawn(
    process.execPath,
    [
      ...[...FROM_SOURCE, path.join(ROOT, "packages/loadgen/src/cli.ts"), `127.0.0.1:${server.port}`],
      ...["--concurrency", "128", "--connections", "8", "--processes", "1", "--request-size", "1"],
      ...["--warmup", "0", "--duration", "3600", "--cpus", flags["client-cpu"]],
    ],
    { stdio: "ignore", detached: true },
  );
  const closed = once(client, "close");
  await sleep(CLIENT_S * 1000);
  // The whole group: the load process is a child of the command.
  process.kill(-(client.pid as number), "SIGKILL");
  await closed;
  await sleep(200);
  const sample = await closeSample(server, readdirSync(`/proc/${server.pid}/fd`).length);
  samples.push(sample);
  console.log(JSON.stringify(sample));
}
const steady = samples.slice(samples.length >> 1);
const grown = {
  rss: growth(samples, ({ rssMb }) => rssMb),
  heap: growth(samples, ({ heapMb }) => heapMb),
};
console.log(
  JSON.stringify({
    requests: samples.at(-1)?.requests,
    rssMbPerMillion: slopePerMillion(steady, (sample) => sample.rssMb),
    heapMbPerMillion: slopePerMillion(steady, (sample) => sample.heapMb),
    grown,
    openFiles: [samples[0]?.openFiles, samples.at(-1)?.openFiles],
    refused: samples.at(-1)?.refused,
  }),
);
await server.stop();
process.exitCode = (samples.at(-1)?.refused ?? 0) > 0 || grown.rss > MOST_GROWTH || grown.heap > MOST_GROWTH ? 1 : 0;
