/**
 * Whether this generator measures what others do: `node --conditions=@dlrm/source bench/agreement.ts host:port [callers]
 * [seconds] [rounds]`, with h2load (nghttp2-client) and ghz on the PATH, against a server of
 * `dlrm.serving.v1.PredictionService`. Each round runs one after the other: closed loop, as many connections as callers, one
 * example a request, on the CPUs of this process. Medians of the rounds are compared.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { fetchServerModel, runLoad } from "../src/index.ts";
import { PREDICT_PATH } from "../src/predict-path.ts";
import { buildRequestPool } from "../src/request-pool.ts";

interface Figures {
  readonly requestsPerS: number;
  readonly p99Ms: number;
}

const [address = "127.0.0.1:8500", callersText = "16", secondsText = "5", roundsText = "3"] = process.argv.slice(2);
const [host = "", portText = ""] = address.split(":");
const [port, callers, seconds, rounds] = [portText, callersText, secondsText, roundsText].map(Number) as [
  number,
  number,
  number,
  number,
];
const WARM_UP_S = 1;
const proto = fileURLToPath(new URL("../../../proto", import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), "loadgen-agreement-"));
const model = await fetchServerModel({ host, port });
const pool = buildRequestPool({
  shape: model.shape,
  idType: model.idType,
  model: "",
  requestSize: 1,
  idDistribution: "uniform",
  seed: 1,
  poolExamples: 64,
  part: 0,
  parts: 1,
});
const frame = pool.next();
writeFileSync(path.join(folder, "frame.bin"), frame);
writeFileSync(path.join(folder, "message.bin"), frame.subarray(5));

function run(file: string, args: readonly string[]): string {
  const { stdout, stderr, status, error } = spawnSync(file, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status === 0) return stdout;
  throw new Error(`${file}: ${error?.message ?? `exit code ${status}: ${stderr}`}`);
}

async function loadgen(): Promise<Figures> {
  const { requestsPerS, latency } = await runLoad({
    host,
    port,
    ...model,
    requestSize: 1,
    mode: { kind: "closed", concurrency: callers },
    connections: callers,
    processes: 1,
    warmupS: WARM_UP_S,
    durationS: seconds,
    poolExamples: 64,
  });
  return { requestsPerS, p99Ms: latency.p99Ms };
}

function h2load(): Promise<Figures> {
  const log = path.join(folder, "h2load.log");
  rmSync(log, { force: true });
  const output = run("h2load", [
    ...["-c", String(callers), "-m", "1", "-t", "1", "-D", String(seconds), `--warm-up-time=${WARM_UP_S}`],
    ...["-d", path.join(folder, "frame.bin"), "-H", "content-type: application/grpc", "-H", "te: trailers"],
    ...[`--log-file=${log}`, `http://${address}${PREDICT_PATH}`],
  ]);
  // Start, HTTP status, duration; times in microseconds.
  const micros = readFileSync(log, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => Number(line.split("\t")[2]))
    .sort((a, b) => a - b);
  return Promise.resolve({
    requestsPerS: Number(/, ([\d.]+) req\/s/.exec(output)?.[1]),
    p99Ms: (micros[Math.ceil(micros.length * 0.99) - 1] ?? Number.NaN) / 1000,
  });
}

/** As the others, without the warm-up: ghz gives each call's time and length, but its own figures are of all its calls. */
function ghz(): Promise<Figures> {
  const output = run("ghz", [
    ...["--insecure", "-i", proto, "--proto", path.join(proto, "dlrm/serving/v1/prediction.proto")],
    ...["--call", "dlrm.serving.v1.PredictionService.Predict", "-B", path.join(folder, "message.bin")],
    ...[
      "-c",
      String(callers),
      "--connections",
      String(callers),
      "-z",
      `${seconds + WARM_UP_S}s`,
      "-O",
      "json",
      address,
    ],
  ]);
  const { details } = JSON.parse(output) as { details: { timestamp: string; latency: number; status: string }[] };
  // A call's timestamp is that of its end.
  const calls = details
    .filter(({ status }) => status === "OK")
    .map(({ timestamp, latency }) => ({ endMs: Date.parse(timestamp), latencyMs: latency / 1e6 }));
  const firstMs = calls.reduce((least, { endMs, latencyMs }) => Math.min(least, endMs - latencyMs), Infinity);
  const windowStartMs = firstMs + WARM_UP_S * 1000;
  const measured = calls.filter(({ endMs }) => endMs >= windowStartMs && endMs < windowStartMs + seconds * 1000);
  const millis = measured.map(({ latencyMs }) => latencyMs).sort((x, y) => x - y);
  return Promise.resolve({
    requestsPerS: millis.length / seconds,
    p99Ms: millis[Math.ceil(millis.length * 0.99) - 1] ?? Number.NaN,
  });
}

const tools = { "dlrm-loadgen": loadgen, h2load, ghz };
const found: Record<string, Figures[]> = {};
for (let round = 0; round < rounds; round++) {
  for (const [name, measure] of Object.entries(tools)) {
    const figures = await measure();
    (found[name] ??= []).push(figures);
    console.error(name, figures);
  }
}
rmSync(folder, { recursive: true });

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
console.log(
  `closed loop, C ${callers}, ${callers} connections, 1 example a request, medians of ${rounds} rounds of ${seconds} s\n`,
);
console.log("| generator | requests/s | p99, ms |\n| --- | ---: | ---: |");
for (const [name, figures] of Object.entries(found)) {
  const rate = median(figures.map(({ requestsPerS }) => requestsPerS));
  const p99 = median(figures.map(({ p99Ms }) => p99Ms));
  console.log(`| ${name} | ${rate.toFixed(0)} | ${p99.toFixed(2)} |`);
}
