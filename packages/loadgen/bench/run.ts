/**
 * What a call costs the client in CPU, against a server of a few lines that answers at once:
 * `node --conditions=@dlrm/source bench/run.ts [h2|node] [examples] [callers] [connections] [seconds] [--in-process]`.
 *
 * Server and client are pinned apart where there are two CPUs. With `--in-process` the load runs in this very process
 * (not pinned), so that it can be profiled with `--cpu-prof`.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { allowedCpus, findTaskset } from "../src/cpu-affinity.ts";
import { type LoadOptions, runLoad } from "../src/index.ts";
import { LatencyHistogram } from "../src/latency-histogram.ts";
import { fillLoadOptions } from "../src/load-options.ts";
import { LoadShare } from "../src/load-share.ts";
import { nowMicros } from "../src/monotonic-clock.ts";
import { planShares } from "../src/share-plan.ts";
import { startFakeServer } from "../test/fake-server.ts";

/** Ids of an example in each table of DLRM-DCNv2. */
const HOT_SIZES = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1];

const inProcess = process.argv.includes("--in-process");
const [first = "h2", requestSize = "1", callers = "64", connections = "64", seconds = "4"] = process.argv
  .slice(2)
  .filter((arg) => !arg.startsWith("--"));

if (first === "serve") await serve();
else await measure();

async function serve(): Promise<void> {
  const server = await startFakeServer(({ connection, streamId }) => connection.answer(streamId));
  process.send?.(server.port);
  process.on("disconnect", () => process.exit(0));
}

async function measure(): Promise<void> {
  const taskset = findTaskset();
  const [serverCpu, clientCpu] = taskset === undefined || inProcess ? [] : (allowedCpus() ?? []);
  const nodeArgs = ["--conditions=@dlrm/source"];
  const server = fork(fileURLToPath(import.meta.url), ["serve"], {
    ...(taskset === undefined || clientCpu === undefined
      ? { execArgv: nodeArgs }
      : { execPath: taskset, execArgv: ["-c", String(serverCpu), process.execPath, ...nodeArgs] }),
  });
  const port = await new Promise<number>((resolve) => {
    server.once("message", (message) => resolve(Number(message)));
  });
  const options: LoadOptions = {
    host: "127.0.0.1",
    port,
    shape: {
      denseFeatures: 13,
      features: HOT_SIZES.map((hotSize, i) => ({ name: `sparse_${i}`, vocabularySize: 850_000, hotSize })),
    },
    requestSize: Number(requestSize),
    mode: { kind: "closed", concurrency: Number(callers) },
    connections: Number(connections),
    processes: 1,
    warmupS: 1,
    durationS: Number(seconds),
    transport: first === "node" ? "node" : "h2",
    ...(clientCpu === undefined ? {} : { cpus: String(clientCpu) }),
  };
  const { cpuMicros, calls, errors } = inProcess ? await runHere(options) : await runApart(options);
  server.disconnect();
  console.log(
    `${first}, ${requestSize} examples, ${callers} callers, ${connections} connections: ` +
      `${(cpuMicros / calls).toFixed(1)} µs of client CPU a call, ${(calls / Number(seconds)).toFixed(0)} calls/s, errors ${JSON.stringify(errors)}`,
  );
}

interface Cost {
  readonly cpuMicros: number;
  readonly calls: number;
  readonly errors: Readonly<Record<string, number>>;
}

async function runApart(options: LoadOptions): Promise<Cost> {
  const { clientCpuMicros, requests, errors } = await runLoad(options);
  return { cpuMicros: clientCpuMicros, calls: requests, errors };
}

async function runHere(options: LoadOptions): Promise<Cost> {
  await LatencyHistogram.prepare();
  const filled = fillLoadOptions(options);
  const [plan] = planShares(filled, 1);
  if (plan === undefined) throw new Error("no share is planned");
  const share = await LoadShare.prepare(filled, plan);
  const { cpuMicros, completed, errors } = await share.run(nowMicros());
  return { cpuMicros, calls: completed, errors };
}
