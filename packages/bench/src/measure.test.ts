import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { fakeServerCommand } from "../test/fake-arm.ts";
import { tempFolder } from "../test/temp-folder.ts";
import { freePort } from "./free-port.ts";
import { readMachine } from "./machine.ts";
import { measure, type MeasureRequest } from "./measure.ts";
import { repeatOf } from "./point-repeat.ts";
import { PredictionClient } from "./prediction-client.ts";
import { ProcessGuard } from "./process-guard.ts";
import { ServerProcess } from "./server-process.ts";

const machine = readMachine();
const never = new AbortController().signal;
let guard: ProcessGuard;
let dir: string;

beforeEach(() => {
  guard = new ProcessGuard();
  dir = tempFolder("measure");
});

afterEach(() => guard.close());

function request(port: number, serverPid: number): MeasureRequest {
  return {
    task: {
      host: "127.0.0.1",
      port,
      shape: { denseFeatures: 1, features: [{ name: "sparse_0", vocabularySize: 10, hotSize: 1 }] },
      requestSize: 2,
      mode: { kind: "closed", concurrency: 2 },
      connections: 1,
      processes: 1,
      warmupS: 0.2,
      durationS: 0.5,
      poolExamples: 128,
    },
    serverPid,
    clientCpus: machine.cpus.slice(-1),
    taskset: machine.taskset,
    guard,
    logFile: path.join(dir, "load.log"),
    signal: never,
    onProgress: () => undefined,
  };
}

it("measures a real server: load, and CPU and memory of both sides over the measured window", async () => {
  const port = await freePort("127.0.0.1");
  const server = new ServerProcess({
    command: fakeServerCommand(port, "ok"),
    logFile: path.join(dir, "server.log"),
    guard,
  });
  const client = new PredictionClient("127.0.0.1", port);
  await client.untilServing(60_000, never);
  client.close();
  const measurement = await measure(request(port, server.pid as number));
  expect(measurement.load.errors).toEqual({});
  expect(measurement.strays).toEqual([]);
  const repeat = repeatOf(1, measurement, "closed");
  expect(repeat.examples).toBe((repeat.requests as number) * 2);
  expect(repeat.p50Ms).toBeGreaterThan(0);
  expect(repeat.p99Ms).toBeGreaterThanOrEqual(repeat.p50Ms as number);
  if (process.platform !== "linux") return;
  const { samples } = measurement.server ?? { samples: [] };
  expect(samples[0]?.timeNs).toBeLessThan(measurement.load.measuredFromNs);
  expect(samples.at(-1)?.timeNs).toBeGreaterThan(measurement.load.measuredToNs);
  expect(repeat.serverCpuMicrosPerExample).toBeGreaterThan(0);
  expect(repeat.serverPeakPssBytes).toBeGreaterThan(2 ** 20);
  expect(measurement.client?.cpuMicros).toBeGreaterThan(0);
});

it("tells why there was no load, and leaves no monitor behind", async () => {
  const port = await freePort("127.0.0.1");
  await expect(measure(request(port, process.pid))).rejects.toMatchObject({ code: "load_failed" });
});
