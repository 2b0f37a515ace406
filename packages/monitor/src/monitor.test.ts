import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeProc, type FakeProcess } from "../test/fake-proc.ts";
import type { Gauge } from "./gauge.ts";
import { monitorAvailability, type MonitorOptions, startMonitor, TreeMonitor } from "./monitor.ts";
import { Proc } from "./proc.ts";

let fake: FakeProc;
beforeEach(() => {
  fake = new FakeProc();
});
afterEach(() => fake.remove());

/** A monitor of the fake /proc whose clock and timer are the test's. Reading PSS takes `pssMs` of that clock. */
function setUp(processes: readonly FakeProcess[], options: Partial<MonitorOptions> = {}, pssMs: number = 0) {
  fake.set(processes);
  const world = { nowMs: 1000, tick: () => {}, ended: false, pssReads: 0 };
  class CountingProc extends Proc {
    override pss(pid: number) {
      world.pssReads++;
      world.nowMs += pssMs;
      return super.pss(pid);
    }
  }
  const monitor = new TreeMonitor(
    { pid: 10, ...options },
    {
      proc: new CountingProc(fake.root),
      constants: { ticksPerS: 100, pageBytes: 4096 },
      nowNs: () => world.nowMs * 1e6,
      every: (_intervalMs, run) => {
        world.tick = run;
        return () => {
          world.ended = true;
        };
      },
    },
  );
  const at = (ms: number, now: readonly FakeProcess[]): void => {
    world.nowMs = ms;
    fake.set(now);
  };
  return { monitor, world, at };
}

const root = (more: Partial<FakeProcess> = {}): FakeProcess => ({
  pid: 10,
  parentPid: 1,
  user: 100,
  rssPages: 1000,
  pssKib: 3000,
  ...more,
});
const child = (more: Partial<FakeProcess> = {}): FakeProcess => ({
  pid: 20,
  parentPid: 10,
  user: 50,
  rssPages: 500,
  pssKib: 1000,
  ...more,
});

describe("TreeMonitor", () => {
  test("marks tell what happened since the start, of the whole tree", () => {
    const { monitor, at } = setUp([root(), child()]);
    expect(monitor.mark()).toMatchObject({
      timeNs: 1000e6,
      cpuMicros: 0,
      rssBytes: 1500 * 4096,
      pssBytes: 4000 * 1024,
      processes: 2,
      pssIncomplete: false,
    });
    at(1500, [root({ user: 110, reapedUser: 60 })]);
    expect(monitor.mark()).toMatchObject({ timeNs: 1500e6, cpuMicros: 200_000, rssBytes: 1000 * 4096, processes: 1 });
  });

  test("samples between marks, and keeps the peaks", () => {
    const { monitor, world, at } = setUp([root()], { pssIntervalMs: 1000 });
    at(1200, [root({ rssPages: 9000, pssKib: 7000 })]);
    world.tick();
    at(2000, [root({ rssPages: 2000, pssKib: 5000, user: 120 })]);
    world.tick();
    at(2500, [root({ rssPages: 100, pssKib: 100, user: 130 })]);
    const result = monitor.stop();
    expect(result).toMatchObject({
      peakRssBytes: 9000 * 4096,
      peakPssBytes: 5000 * 1024,
      cpuMicros: 300_000,
      startNs: 1000e6,
      stopNs: 2500e6,
      pssReadings: 3,
    });
    expect(result.samples.map(({ timeNs, cpuMicros, pssBytes }) => [timeNs / 1e6, cpuMicros, pssBytes])).toEqual([
      [1000, 0, 3000 * 1024],
      [1200, 0, undefined],
      [2000, 200_000, 5000 * 1024],
      [2500, 300_000, 100 * 1024],
    ]);
    expect(world.ended).toBe(true);
    expect(monitor.stop()).toBe(result);
  });

  test("PSS that is slow to read is read less often, and what it took is told", () => {
    const { monitor, world, at } = setUp([root()], { pssIntervalMs: 100 }, 30);
    expect(world.pssReads).toBe(1);
    // 30 ms at the start: not again before 1030 + 50 * 30 = 2530.
    at(2529, [root()]);
    world.tick();
    expect(world.pssReads).toBe(1);
    at(2530, [root()]);
    world.tick();
    expect(world.pssReads).toBe(2);
    const result = monitor.stop();
    expect([result.pssReadings, result.pssReadingMicros]).toEqual([3, 90_000]);
    expect(result.samplingMicros).toBe(90_000);
  });

  test("a mark takes no time for PSS unless it is asked to, and says how old the value is", () => {
    const { monitor, world, at } = setUp([root()], {}, 30);
    at(1200, [root({ pssKib: 8000 })]);
    expect(monitor.mark()).toMatchObject({ timeNs: 1200e6, pssBytes: 3000 * 1024, pssAgeMs: 170 });
    expect(world.pssReads).toBe(1);
    expect(monitor.mark({ freshPss: true })).toMatchObject({ timeNs: 1200e6, pssBytes: 8000 * 1024, pssAgeMs: 0 });
  });

  test("RSS stands in for PSS that cannot be read, and the result says so", () => {
    const { monitor } = setUp([root(), { pid: 20, parentPid: 10, rssPages: 500 }]);
    expect(monitor.mark()).toMatchObject({ pssBytes: 3000 * 1024 + 500 * 4096, pssIncomplete: true });
    expect(monitor.stop().pssNote).toBe(
      "PSS of 1 processes cannot be read, their RSS stands in: shared pages count more than once",
    );
  });

  test("zombies have no memory, and are not processes that run", () => {
    const { monitor } = setUp([root(), { pid: 20, parentPid: 10, state: "Z", user: 5 }]);
    expect(monitor.mark()).toMatchObject({ processes: 1, pssIncomplete: false, pssBytes: 3000 * 1024 });
  });

  test("context switches and CPU time of threads count those that ended, too", () => {
    const thread = (tid: number, name: string, switches: number, ns: number) => ({ tid, name, switches, ns });
    const { monitor, at } = setUp([root({ threads: [thread(10, "main", 10, 1e6), thread(11, "pool", 20, 2e6)] })], {
      threads: true,
    });
    expect(monitor.mark()).toMatchObject({ contextSwitches: 0, threadCpuMicros: { main: 1000, pool: 2000 } });
    at(1100, [root({ threads: [thread(10, "main", 15, 4e6), thread(12, "pool", 7, 3e6)] })]);
    // 5 of main, 7 + 1 of the new thread; 20 + 1 of the ended one were there at the start.
    expect(monitor.mark()).toMatchObject({ contextSwitches: 13, threadCpuMicros: { main: 4000, pool: 5000 } });
    // The same number again for another thread: its counts begin anew.
    at(1200, [root({ threads: [thread(10, "main", 15, 4e6), thread(12, "io", 2, 1e6)] })]);
    expect(monitor.mark()).toMatchObject({
      contextSwitches: 16,
      threadCpuMicros: { main: 4000, pool: 5000, io: 1000 },
    });
    // Of the result, only what came after the start: 1,000 of main and 2,000 of pool were there before.
    expect(monitor.stop().threadCpuMicros).toEqual({ main: 3000, pool: 3000, io: 1000 });
  });

  test("gauges are sampled with the tree, and closed at the end", () => {
    const values = [5, undefined, 9, 7];
    let closed = 0;
    const gauge: Gauge = { name: "gpu0MemoryBytes", read: () => values.shift(), close: () => void closed++ };
    const { monitor, world } = setUp([root()], { gauges: [gauge] });
    world.tick();
    expect(monitor.mark().gauges).toEqual({ gpu0MemoryBytes: 9 });
    const result = monitor.stop();
    expect(result.samples.map((sample) => sample.gauges)).toEqual([
      { gpu0MemoryBytes: 5 },
      {},
      { gpu0MemoryBytes: 9 },
      { gpu0MemoryBytes: 7 },
    ]);
    expect([result.peakGauges, closed]).toEqual([{ gpu0MemoryBytes: 9 }, 1]);
  });

  test("a tree that has ended keeps its figures to the end", () => {
    const { monitor, world, at } = setUp([root(), child()]);
    at(1200, []);
    world.tick();
    at(9000, []);
    expect(monitor.stop()).toMatchObject({ cpuMicros: 0, peakRssBytes: 1500 * 4096, peakPssBytes: 4000 * 1024 });
  });

  test.each<[object, string, string]>([
    [{ pid: 77 }, "no_process", "there is no process 77"],
    [{ pid: 0 }, "invalid_options", "pid must be an integer from 1, got 0"],
    [{ intervalMs: 1 }, "invalid_options", "intervalMs must be from 10 to 60000, got 1"],
    [
      { pssInterval: 100 },
      "invalid_options",
      "there is no option pssInterval, expected only pid, pids, intervalMs, pssIntervalMs, threads, gauges",
    ],
    [{ pssIntervalMs: Number.NaN }, "invalid_options", "pssIntervalMs must be from 10 to 600000, got NaN"],
  ])("refuses %j", (options, code, message) => {
    expect(() => setUp([root()], options)).toThrow(expect.objectContaining({ code, message }));
  });
});

test("systems without /proc are told so, rather than given wrong numbers", () => {
  expect(monitorAvailability("darwin")).toEqual({
    available: false,
    reason: "CPU and memory of processes are not available on darwin: they are read from Linux's /proc",
  });
  expect(monitorAvailability("win32").available).toBe(false);
});

const skipped = monitorAvailability();

describe.skipIf(!skipped.available)("startMonitor on real processes (needs Linux's /proc)", () => {
  /** Burns CPU until it has used `ms` in all, says what it used, and waits for a line before it ends. */
  const burn = (ms: number): string => `
    while (process.cpuUsage().user + process.cpuUsage().system < ${ms} * 1000);
    const { user, system } = process.cpuUsage();
    console.log(user + system);
    process.stdin.once("data", () => process.exit());`;

  function start(script: string) {
    const program = spawn(process.execPath, ["-e", script], { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: program.stdout });
    return { program, line: async () => Number((await once(lines, "line"))[0]) };
  }

  test("CPU time is that which the process itself measures, to some clock ticks", async () => {
    const { program, line } = start(burn(300));
    const monitor = startMonitor({ pid: program.pid as number, intervalMs: 50 });
    const used = await line();
    const mark = monitor.mark({ freshPss: true });
    program.stdin.write("end\n");
    await once(program, "close");
    const result = monitor.stop();
    // The process may have used some before the monitor began, and some after it measured.
    expect(mark.cpuMicros).toBeGreaterThan(used - 250_000);
    expect(mark.cpuMicros).toBeLessThan(used + 150_000);
    expect(result.cpuMicros).toBeGreaterThanOrEqual(mark.cpuMicros);
    expect(mark.processes).toBe(1);
    expect(mark.rssBytes).toBeGreaterThan(10e6);
    expect(mark.pssBytes).toBeGreaterThan(1e6);
    expect(mark.contextSwitches).toBeGreaterThan(0);
    expect(result.peakRssBytes).toBeGreaterThanOrEqual(mark.rssBytes);
  });

  test("a child that starts and ends meanwhile is counted", async () => {
    const { program, line } = start(`
      process.stdin.once("data", () => {
        const { status, stdout } = require("node:child_process").spawnSync(process.execPath,
          ["-e", ${JSON.stringify("while (process.cpuUsage().user < 200000); console.log(process.cpuUsage().user);")}]);
        console.log(String(stdout).trim());
        process.stdin.once("data", () => process.exit(status));
      });
      console.log(0);`);
    await line();
    const monitor = startMonitor({ pid: program.pid as number, intervalMs: 10_000 });
    const before = monitor.mark();
    const reported = line();
    program.stdin.write("go\n");
    const used = await reported;
    const after = monitor.mark();
    program.stdin.write("end\n");
    await once(program, "close");
    expect(used).toBeGreaterThanOrEqual(200_000);
    // One tick may be lost to rounding of each of user and system time.
    expect(after.cpuMicros - before.cpuMicros).toBeGreaterThanOrEqual(used - 20_000);
    expect(monitor.stop().cpuMicros).toBeGreaterThanOrEqual(after.cpuMicros);
  });

  test("a process that is not there is said", () => {
    expect(() => startMonitor({ pid: 2 ** 22 + 1 })).toThrow("there is no process 4194305");
  });
});
