import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Collections } from "./gc-child.ts";
import type { HeapSample } from "./heap-child.ts";

export const ROOT: string = path.resolve(fileURLToPath(import.meta.url), "../../../..");
export const FROM_SOURCE: readonly string[] = ["--conditions=@dlrm/source", "--no-warnings"];

/** Longest that a server may load its model, milliseconds. */
const START_TIMEOUT_MS = 120_000;
const POLL_MS = 20;

/** A `dlrm-serve` under measurement, pinned to CPUs. */
export interface Served {
  readonly port: number;
  readonly adminPort: number | undefined;
  readonly pid: number;
  /** CPU time of all threads that it has now, nanoseconds. */
  cpuNs(): number;
  /** How long each collection stopped the main thread since the last call, milliseconds; only if it `observes: "pauses"`. */
  pausesMs(): Promise<readonly number[]>;
  /** What the garbage collector did since the last call; only if it `observes: "collections"`. */
  collections(): Promise<Collections>;
  /** Memory after a full collection; only if it `observes: "heaps"`. */
  heaps(): Promise<HeapSample>;
  stop(): Promise<void>;
}

export interface ServeOptions {
  readonly bundle: string;
  readonly cpus: string;
  readonly args: readonly string[];
  readonly observes?: "pauses" | "collections" | "heaps";
  /** Of Node. */
  readonly nodeFlags?: readonly string[];
}

const OBSERVERS = { pauses: "pause-child.ts", collections: "gc-child.ts", heaps: "heap-child.ts" } as const;

export async function serve({ bundle, cpus, args, observes, nodeFlags = [] }: ServeOptions): Promise<Served> {
  const cli = path.join(ROOT, "packages/server/src/cli.ts");
  const imported =
    observes === undefined ? [] : ["--import", fileURLToPath(new URL(OBSERVERS[observes], import.meta.url))];
  const node = [process.execPath, ...nodeFlags, ...FROM_SOURCE, ...imported, cli];
  const child = spawn(
    "taskset",
    ["-c", cpus, ...node, "--bundle", bundle, "--port", "0", "--device", "simulated", ...args],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  // A measurement that fails must not leave a server with gigabytes behind.
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  child.once("close", () => process.off("exit", end));
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => {
    log += chunk.toString();
  });
  const startedAt = performance.now();
  while (!log.includes('"msg":"serving"')) {
    if (child.exitCode !== null || performance.now() - startedAt > START_TIMEOUT_MS) {
      child.kill("SIGKILL");
      throw new Error(`the server did not start:\n${log}`);
    }
    await sleep(POLL_MS);
  }
  const [, port] = /"port":(\d+)/u.exec(log) as RegExpExecArray;
  const adminPort = /"adminPort":(\d+)/u.exec(log)?.[1];
  const pid = child.pid as number;
  /** What the observer answers to a signal. */
  const asked = async (word: string): Promise<unknown> => {
    const before = log.length;
    const answer = new RegExp(`^${word} (.*)\n`, "mu");
    child.kill("SIGUSR2");
    while (!answer.test(log.slice(before))) await sleep(POLL_MS);
    return JSON.parse(answer.exec(log.slice(before))?.[1] as string);
  };
  return {
    port: Number(port),
    adminPort: adminPort === undefined ? undefined : Number(adminPort),
    pid,
    cpuNs: () => threadNs(pid),
    pausesMs: async () => (await asked("PAUSES")) as readonly number[],
    collections: async () => (await asked("GC")) as Collections,
    heaps: async () => (await asked("HEAPS")) as HeapSample,
    stop: () => stop(child),
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const closed = once(child, "close");
  child.kill("SIGTERM");
  await closed;
}

function threadNs(pid: number): number {
  let sum = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      sum += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
    } catch {
      // It has ended meanwhile.
    }
  }
  return sum;
}
