import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tinyBundle } from "../test/tiny-bundle.ts";
import { arm } from "./arm.ts";

let fixture: Awaited<ReturnType<typeof tinyBundle>>;
beforeAll(async () => {
  fixture = await tinyBundle();
});
afterAll(() => fixture.remove());

const launch = {
  bundleDir: "/bundles/model",
  host: "127.0.0.1",
  port: 0,
  platform: "sim",
  numThreads: 3,
  numProcesses: 1,
  maxBatchSize: 4096,
  cacheDir: "/cache",
} as const;

/** Starts the arm's command; `ended` gives its exit code and what it said. */
function start(
  change: Partial<Parameters<typeof arm.command>[0]>,
  before: readonly string[] = [],
): {
  child: ChildProcess;
  ended: Promise<{ code: number | null; log: string }>;
} {
  const { file, args } = arm.command({ ...launch, ...change });
  const [command = file, ...rest] = [...before, file, ...args];
  const child = spawn(command, rest, { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr?.on("data", (chunk: Buffer) => (log += chunk.toString()));
  return { child, ended: once(child, "close").then(([code]) => ({ code: code as number | null, log })) };
}

test("the arm says who it is, and starts this Node", () => {
  expect([arm.name, arm.family, arm.platforms]).toEqual(["node", "node", ["cpu", "cuda", "tpu", "sim"]]);
  const { file, args, env } = arm.command({ ...launch, port: 8600 });
  expect([file, env]).toEqual([process.execPath, {}]);
  expect(args.slice(args.indexOf("--bundle"))).toEqual(
    "--bundle /bundles/model --host 127.0.0.1 --port 8600 --platform sim --num-threads 3 --max-batch-size 4096".split(
      " ",
    ),
  );
});

test("platforms that cannot be had say what is missing", async () => {
  expect(await arm.availability("sim")).toEqual({ available: true });
  expect(await arm.availability("cpu")).toEqual({ available: true });
  expect(await arm.availability("tpu")).toMatchObject({ missing: expect.stringContaining("TPUs") });
});

test("SIGTERM drains the server and ends it with code 0", async () => {
  const { child, ended } = start({ bundleDir: fixture.bundle.dir });
  let log = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    log += chunk.toString();
    if (log.includes("serving ") && !child.killed) child.kill("SIGTERM");
  });
  const result = await ended;
  expect(result.code).toBe(0);
  expect(result.log).toMatch(/serving .* on 127\.0\.0\.1:\d+\nSIGTERM: draining\n$/);
});

/** The CPUs that this process may use. */
const TASKSET = spawnSync("taskset", ["-cp", String(process.pid)], { encoding: "utf8" });
const whyNoTaskset = process.platform === "linux" && TASKSET.status === 0 ? "" : " (skipped: no taskset)";

test.skipIf(whyNoTaskset !== "")(`no thread leaves the CPUs that the server was given${whyNoTaskset}`, async () => {
  const cpu = /: (\d+)/.exec(TASKSET.stdout)?.[1] ?? "0";
  const { child, ended } = start({ bundleDir: fixture.bundle.dir, platform: "cpu", numThreads: 0 }, [
    "taskset",
    "-c",
    cpu,
  ]);
  const allowed = new Set<string | undefined>();
  let log = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    log += chunk.toString();
    if (!log.includes("serving ") || child.killed) return;
    for (const thread of readdirSync(`/proc/${child.pid}/task`)) {
      const status = readFileSync(`/proc/${child.pid}/task/${thread}/status`, "latin1");
      allowed.add(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1]);
    }
    child.kill("SIGTERM");
  });
  expect((await ended).code).toBe(0);
  expect([...allowed]).toEqual([cpu]);
});

test("what keeps the server from starting is one line, and its exit code", async () => {
  const [noBundle, noModel] = await Promise.all([
    start({ bundleDir: "/nonexistent" }).ended,
    start({ numThreads: 5000 }).ended,
  ]);
  expect(noBundle).toMatchObject({
    code: 1,
    log: expect.stringMatching(/^error: \/nonexistent is not a bundle[^\n]*\n$/),
  });
  expect(noModel).toMatchObject({ code: 2, log: expect.stringMatching(/^error: [^\n]*num-threads[^\n]*\n$/) });
});
