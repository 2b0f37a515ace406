import { readFileSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakeServerCommand, type FakeMode, LifeLine } from "../test/fake-arm.ts";
import { tempFolder } from "../test/temp-folder.ts";
import { freePort } from "./free-port.ts";
import { PredictionClient } from "./prediction-client.ts";
import { ProcessGuard } from "./process-guard.ts";
import { type DrainClock, ServerProcess } from "./server-process.ts";

const never = new AbortController().signal;
/** Waits as long as it takes. */
const patient: DrainClock = async (ended) => {
  await ended;
  return true;
};
/** Finds the time over at once. */
const impatient: DrainClock = async () => false;

let guard: ProcessGuard;
let logFile: string;
let lifeLine: LifeLine;
let client: PredictionClient | undefined;

beforeEach(async () => {
  guard = new ProcessGuard();
  logFile = path.join(tempFolder("server"), "server.log");
  lifeLine = await LifeLine.open();
});

afterEach(() => {
  client?.close();
  guard.close();
  lifeLine.close();
});

async function start(mode: FakeMode): Promise<ServerProcess> {
  const port = await freePort("127.0.0.1");
  const server = new ServerProcess({ command: fakeServerCommand(port, mode, lifeLine.port), logFile, guard });
  client = new PredictionClient("127.0.0.1", port);
  return server;
}

async function untilServing(server: ServerProcess): Promise<void> {
  await server.during("its start", async (signal) => {
    await client?.untilServing(60_000, signal);
  });
}

describe("ServerProcess", { timeout: 300_000 }, () => {
  it("ends cleanly on SIGTERM", async () => {
    const server = await start("ok");
    await untilServing(server);
    expect(server.ended).toBeUndefined();
    expect(await server.stop(60_000, patient)).toEqual({ exit: { kind: "code", code: 0 } });
    expect(server.logTail()).toEqual(["listening"]);
  });

  it("tells at once of an end before health, with the code, and keeps the log", async () => {
    const server = await start("early-exit");
    await expect(untilServing(server)).rejects.toMatchObject({
      code: "arm_failed",
      message: "the server ended during its start: exit code 3",
    });
    expect(server.logTail(1)).toEqual(["cannot open tables.safetensors: no such file"]);
    expect(readFileSync(logFile, "utf8")).toContain("reading tables\n");
    expect(await server.stop(1, patient)).toEqual({ exit: { kind: "code", code: 3 } });
  });

  it("kills a process that ignores SIGTERM", async () => {
    const server = await start("stubborn");
    await untilServing(server);
    const { ended } = await lifeLine.connected();
    expect(await server.stop(10_000, impatient)).toEqual({
      exit: { kind: "signal", signal: "SIGKILL" },
      warning: "did not end within 10 s of SIGTERM, and was killed",
    });
    await ended;
  });

  it("kills children that are left behind, and says so", async () => {
    const server = await start("child");
    const { ended } = await lifeLine.connected();
    await untilServing(server);
    expect(await server.stop(10_000, patient)).toEqual({
      exit: { kind: "code", code: 0 },
      warning: "left processes behind after SIGTERM, which were killed",
    });
    await ended;
  });

  it("gives up what is done with it when it ends", async () => {
    const server = await start("ok");
    await untilServing(server);
    let told: unknown;
    const work = server.during("load", (signal) => {
      process.kill(server.pid as number, "SIGKILL");
      return new Promise<void>((_, reject) => {
        signal.addEventListener("abort", () => {
          told = signal.reason;
          reject(new Error("a consequence"));
        });
      });
    });
    await expect(work).rejects.toThrow("the server ended during load: signal SIGKILL");
    expect(told).toMatchObject({ code: "arm_failed" });
  });

  it("says why a program cannot be started", async () => {
    const command = { file: "/no/such/program", args: [], env: {} };
    const server = new ServerProcess({ command, logFile, guard });
    await expect(server.during("its start", () => new Promise(() => undefined))).rejects.toThrow(
      "the server ended during its start: it could not be started: spawn /no/such/program ENOENT",
    );
    expect(server.pid).toBeUndefined();
    expect((await server.stop(1, patient)).exit.kind).toBe("not_started");
  });

  it("passes the work's own error on", async () => {
    const server = await start("ok");
    await expect(server.during("load", () => Promise.reject(new Error("its own")))).rejects.toThrow("its own");
  });
});

it("a server that isn't serving is not healthy, and its last answer is told", async () => {
  const server = await start("not-serving");
  await lifeLine.connected();
  await expect(server.during("its start", (signal) => client!.untilServing(3000, signal))).rejects.toThrow(
    "not healthy within 3 s; its last answer: NOT_SERVING",
  );
});

it("waiting for health ends when its signal says so", async () => {
  const server = await start("not-serving");
  const stop = new AbortController();
  const waiting = client!.untilServing(60_000, AbortSignal.any([stop.signal, never]));
  stop.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  expect(server.ended).toBeUndefined();
});
