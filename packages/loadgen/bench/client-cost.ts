/**
 * What a call costs the client in CPU: `node --conditions=@dlrm/source bench/client-cost.ts [lean|node] [examples] [C] [connections]`.
 * Load runs against a server of a few lines in its own process, that answers at once; both pinned apart where possible.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { allowedCpus } from "../src/cpu-affinity.ts";
import { runLoad } from "../src/index.ts";
import { startFakeServer } from "../test/fake-server.ts";

const HOT_SIZES = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1];

if (process.argv[2] === "serve") {
  const server = await startFakeServer(({ connection, streamId }) => connection.answer(streamId));
  process.send?.(server.port);
  process.on("disconnect", () => process.exit(0));
} else {
  const [transport = "lean", requestSize = "1", concurrency = "64", connections = "64"] = process.argv.slice(2);
  const cpus = allowedCpus() ?? [];
  const server = fork(fileURLToPath(import.meta.url), ["serve"], {
    ...(cpus.length > 1
      ? { execPath: "taskset", execArgv: ["-c", String(cpus[0]), process.execPath, ...process.execArgv] }
      : {}),
  });
  const port = await new Promise<number>((resolve) => server.once("message", (message) => resolve(Number(message))));
  const result = await runLoad({
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
    ...(cpus.length > 1 ? { cpus: String(cpus[1]) } : {}),
    warmupS: 1,
    durationS: 4,
    transport: transport === "node" ? "node" : "lean",
  });
  server.disconnect();
  console.log(
    `${transport} B ${requestSize} C ${concurrency} connections ${connections}: ${(result.clientCpuMicros / result.requests).toFixed(1)} µs of client CPU a call, ` +
      `${result.requestsPerS.toFixed(0)} req/s, client at ${(result.clientCpuFraction * 100).toFixed(0)} %, p50 ${result.latency.p50Ms} ms, errors ${JSON.stringify(result.errors)} ${result.errorSample ?? ""}`,
  );
}
