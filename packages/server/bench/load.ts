import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { FROM_SOURCE, ROOT, type Served } from "./served.ts";

export interface LoadPoint {
  /** Examples a request. */
  readonly requestSize: number;
  readonly connections: number;
  /** Callers of a closed loop, or requests a second of an open one. */
  readonly load: { readonly concurrency: number } | { readonly ratePerS: number };
}

export interface LoadOptions {
  readonly cpus: string;
  readonly warmupS: number;
  readonly durationS: number;
}

/** What is used of loadgen's result. */
interface LoadResult {
  readonly examplesPerS: number;
  readonly requestsPerS: number;
  readonly latency: { readonly p50Ms: number; readonly p99Ms: number; readonly p999Ms: number };
  /** What of the latencies of an open loop is the load generator's own lateness. */
  readonly sendLag: { readonly p99Ms: number; readonly maxMs: number };
  readonly errors: Readonly<Record<string, number>>;
  readonly clientCpuFraction: number;
}

export interface Measured extends LoadResult {
  /** The server's CPU time in the middle of the window, microseconds an example. */
  readonly cpuMicros: number;
}

/** At the ends of the window the load is not steady. */
const MARGIN_S = 0.5;
/** Of a shorter one nothing is left in which the server's CPU time could be taken. */
const LEAST_DURATION_S = 4 * MARGIN_S;

export async function loadServer(
  server: Served,
  { requestSize, connections, load }: LoadPoint,
  { cpus, warmupS, durationS }: LoadOptions,
): Promise<Measured> {
  if (!(durationS >= LEAST_DURATION_S)) {
    throw new RangeError(`expected a duration of ${LEAST_DURATION_S} s or more, got ${durationS}`);
  }
  const dir = mkdtempSync(path.join(tmpdir(), "dlrm-server-bench-"));
  const output = path.join(dir, "result.json");
  const mode =
    "concurrency" in load ? ["--concurrency", String(load.concurrency)] : ["--rate", String(Math.round(load.ratePerS))];
  // The command too: what it prints must not take the server's time.
  const child = spawn(
    "taskset",
    [
      ...[
        "-c",
        cpus,
        process.execPath,
        ...FROM_SOURCE,
        path.join(ROOT, "packages/loadgen/src/cli.ts"),
        `127.0.0.1:${server.port}`,
        ...mode,
      ],
      ...["--request-size", String(requestSize), "--connections", String(connections), "--processes", "1"],
      ...["--cpus", cpus, "--warmup", String(warmupS), "--duration", String(durationS), "--output", output],
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  let log = "";
  const measuring = new Promise<void>((resolve) => {
    child.stderr.on("data", (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes("measuring")) resolve();
    });
  });
  const closed = once(child, "close");
  await Promise.race([measuring, closed]);
  await sleep(MARGIN_S * 1000);
  const before = { cpuNs: server.cpuNs(), atMs: performance.now() };
  await sleep((durationS - 3 * MARGIN_S) * 1000);
  const cpuNs = server.cpuNs() - before.cpuNs;
  const elapsedS = (performance.now() - before.atMs) / 1000;
  await closed;
  try {
    const result = JSON.parse(readFileSync(output, "utf8")) as LoadResult;
    return { ...result, cpuMicros: cpuNs / 1000 / (result.examplesPerS * elapsedS) };
  } catch (cause) {
    throw new Error(`the load generator gave no result:\n${log}`, { cause });
  } finally {
    rmSync(dir, { recursive: true });
  }
}
