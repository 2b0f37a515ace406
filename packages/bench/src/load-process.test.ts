import { readFileSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakeServerCommand, LifeLine } from "../test/fake-arm.ts";
import { tempFolder } from "../test/temp-folder.ts";
import { freePort } from "./free-port.ts";
import type { LoadTask } from "./load-options.ts";
import { LoadProcess } from "./load-process.ts";
import { readMachine } from "./machine.ts";
import { PredictionClient } from "./prediction-client.ts";
import { ProcessGuard } from "./process-guard.ts";
import { ServerProcess } from "./server-process.ts";

const machine = readMachine();
const clientCpus = machine.cpus.slice(-1);
const never = new AbortController().signal;

let guard: ProcessGuard;
let dir: string;
let lifeLine: LifeLine;

beforeEach(async () => {
  guard = new ProcessGuard();
  dir = tempFolder("load");
  lifeLine = await LifeLine.open();
});

afterEach(() => {
  guard.close();
  lifeLine.close();
});

async function startServer(): Promise<number> {
  const port = await freePort("127.0.0.1");
  const command = fakeServerCommand(port, "ok");
  const server = new ServerProcess({ command, logFile: path.join(dir, "server.log"), guard });
  expect(server.pid).toBeGreaterThan(0);
  const client = new PredictionClient("127.0.0.1", port);
  await client.untilServing(60_000, never);
  client.close();
  return port;
}

function taskFor(port: number, changes: Partial<LoadTask> = {}): LoadTask {
  return {
    host: "127.0.0.1",
    port,
    model: "tiny",
    shape: { denseFeatures: 2, features: [{ name: "sparse_0", vocabularySize: 10, hotSize: 2 }] },
    requestSize: 3,
    mode: { kind: "closed", concurrency: 2 },
    connections: 2,
    processes: 1,
    warmupS: 0,
    durationS: 0.3,
    poolExamples: 200,
    ...changes,
  };
}

function load(task: LoadTask, signal: AbortSignal = never): LoadProcess {
  return new LoadProcess({
    load: task,
    cpus: clientCpus,
    taskset: machine.taskset,
    guard,
    logFile: path.join(dir, "load.log"),
    signal,
  });
}

describe("LoadProcess", () => {
  it("gives the result of a load on a real server", async () => {
    const port = await startServer();
    const result = await load(taskFor(port)).result;
    expect(result.errors).toEqual({});
    expect(result.requests).toBeGreaterThan(0);
    expect(result.examples).toBe(result.requests * 3);
    expect(readFileSync(path.join(dir, "load.log"), "utf8")).toBe("");
  });

  it("says why no load was possible", async () => {
    const port = await freePort("127.0.0.1");
    await expect(load(taskFor(port)).result).rejects.toMatchObject({
      code: "load_failed",
      message: expect.stringContaining("ECONNREFUSED"),
    });
    await expect(load(taskFor(port, { requestSize: 0 })).result).rejects.toThrow("requestSize");
  });

  it("ends at once with all its processes when it is told to", async () => {
    const stop = new AbortController();
    // Something that takes the connection and never answers.
    const { result } = load(taskFor(lifeLine.port), stop.signal);
    const { ended } = await lifeLine.connected();
    stop.abort(new Error("enough"));
    await expect(result).rejects.toMatchObject({ code: "interrupted", message: "enough" });
    await ended;
  });
});
