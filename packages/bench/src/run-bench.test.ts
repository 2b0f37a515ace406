import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { create } from "@bufbuild/protobuf";
import type { Arm } from "@dlrm/arm-contract";
import { type Bundle, presetSpec } from "@dlrm/model";
import { PredictRequestSchema } from "@dlrm/proto";
import { validateSummary } from "@dlrm/reporter";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fakeArm, fakeServerCommand, LifeLine } from "../test/fake-arm.ts";
import { fakeLoad, fakeMonitor } from "../test/fake-measurement.ts";
import type { Machine } from "./machine.ts";
import type { MeasureDenseNetwork } from "./dense-network-process.ts";
import type { Measure } from "./measure.ts";
import { PredictionClient } from "./prediction-client.ts";
import { Progress } from "./progress.ts";
import type { BenchDependencies } from "./bench-dependencies.ts";
import { runBench } from "./run-bench.ts";
import type { BenchOutcome } from "./run-report.ts";
import { resolveSettings } from "./settings.ts";

const machine: Machine = { cpus: [0, 1], memoryBytes: 1e9, taskset: undefined };
/** On that machine. */
const NOT_PINNED = "nothing was pinned, since there is no taskset: server and load generator shared all CPUs";
const FLAGS = { preset: "dcnv2-lite", max_vocab_size: "500", request_batch_sizes: "1,3", concurrencies: "2" };

let workDir: string;
let lifeLine: LifeLine;
let shown: string;
let stop: AbortController;

beforeEach(async () => {
  workDir = mkdtempSync(path.join(tmpdir(), "bench-run-"));
  lifeLine = await LifeLine.open();
  shown = "";
  stop = new AbortController();
});

afterEach(() => lifeLine.close());

const measured: Measure = async ({ task }) => ({
  load: fakeLoad({ examples: 1000 * Number(task.requestSize), measuredFromNs: 0, measuredToNs: 10 }),
  server: fakeMonitor([
    [0, 0],
    [10, 50_000],
  ]),
  client: fakeMonitor([]),
  strays: [],
});

/** Sends what makes the fake server crash, and then waits for the end of the run or of the server. */
const crashing: Measure = async ({ task, signal }) => {
  const client = new PredictionClient(task.host, task.port);
  await client.predict(create(PredictRequestSchema, { model: "crash" }), signal, 60_000).catch(() => undefined);
  client.close();
  return await new Promise((_, reject) => {
    const giveUp = (): void => reject(signal.reason as Error);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp);
  });
};

const ROWS: Awaited<ReturnType<MeasureDenseNetwork>>["rows"] = [
  {
    device: "a device",
    precision: "float32",
    batch: 128,
    numThreads: 1,
    examplesPerS: 1280,
    maxAbsError: 1e-7,
    callMicros: [100_000],
  },
];

const comparedDevices: MeasureDenseNetwork = async () => ({ rows: ROWS, warnings: [] });

function run(
  arms: readonly Arm[],
  options: {
    measure?: Measure;
    measureDenseNetwork?: MeasureDenseNetwork;
    flags?: Record<string, string | boolean>;
    drainMs?: number;
    dependencies?: Partial<BenchDependencies>;
  } = {},
): Promise<BenchOutcome> {
  const spec = presetSpec("dcnv2-lite", { maxVocabSize: 500 });
  const bundle = { spec } as unknown as Bundle;
  const dependencies: BenchDependencies = {
    arms,
    machine,
    progress: new Progress({ write: (text: string) => (shown += text) }),
    signal: stop.signal,
    measure: options.measure ?? measured,
    measureDenseNetwork: options.measureDenseNetwork ?? comparedDevices,
    prepareBundle: async () => bundle,
    // The score that the fake server has, of the first id of the first feature.
    openReference: async () => ({
      forward: async ({ batch, ids }) => {
        const first = ids[0] as Int32Array;
        const hotSize = first.length / batch;
        return Float64Array.from({ length: batch }, (_, example) => ((first[example * hotSize] as number) % 97) / 97);
      },
      close: async () => undefined,
    }),
    describeMachine: async () => ({ node: "24.0.0" }),
    describeEnvironment: async () => ({ node: "24.0.0" }),
    leaveServerCpus: () => undefined,
    drainMs: options.drainMs ?? 60_000,
    ...options.dependencies,
  };
  const flags = {
    ...FLAGS,
    arms: arms.map(({ name }) => name).join(","),
    repeats: "1",
    open_loop: "off",
    work_dir: workDir,
    ...options.flags,
  };
  const context = { machine, presets: ["dcnv2-lite"], arms, currentDir: workDir };
  return runBench(resolveSettings(flags, context), dependencies);
}

function fillDisk(file: string): void {
  for (const bytes of [65_536, 4096, 1]) {
    try {
      for (;;) appendFileSync(file, Buffer.alloc(bytes));
    } catch {
      // Full for pieces of that size.
    }
  }
}

function results(...parts: string[]): string {
  return path.join(workDir, "results", ...parts);
}

// Each starts several processes.
describe("runBench", { timeout: 300_000 }, () => {
  it("measures every arm at every point, and writes everything", async () => {
    const { summary, reportFile, exitCode } = await run([fakeArm("engine"), fakeArm("py", { family: "python" })], {
      flags: { repeats: "2" },
    });
    expect(exitCode).toBe(0);
    expect(summary.arms?.map(({ arm, status }) => [arm, status])).toEqual([
      ["engine", "ok"],
      ["py", "ok"],
    ]);
    expect(summary.parity).toEqual([
      { arm: "engine", bReq: 1, maxAbsDiff: expect.any(Number), ok: true },
      { arm: "engine", bReq: 3, maxAbsDiff: expect.any(Number), ok: true },
      { arm: "py", bReq: 1, maxAbsDiff: expect.any(Number), ok: true },
      { arm: "py", bReq: 3, maxAbsDiff: expect.any(Number), ok: true },
    ]);
    expect(
      summary.points.map((point) => [
        point.arm,
        point.bReq,
        point.concurrency,
        point.examplesPerS,
        point.serverCpuMicrosPerExample,
        point.repeats.length,
      ]),
    ).toEqual([
      ["engine", 1, 2, 1000, 50, 2],
      ["engine", 3, 2, 3000, 50 / 3, 2],
      ["py", 1, 2, 1000, 50, 2],
      ["py", 3, 2, 3000, 50 / 3, 2],
    ]);
    expect(summary.budgets.find(({ bReq, budgetMs }) => bReq === 1 && budgetMs === 20)).toEqual({
      bReq: 1,
      budgetMs: 20,
      engine: { arm: "engine", examplesPerS: 1000 },
      python: { arm: "py", examplesPerS: 1000 },
      ratio: 1,
    });
    expect(summary.settings.command).toContain("dlrm-bench --platform cpu --preset dcnv2-lite --max_vocab_size 500");
    expect(reportFile).toBe(results("REPORT.md"));
    expect(validateSummary(JSON.parse(readFileSync(results("summary.json"), "utf8")))).toEqual(summary);
    expect(readFileSync(results("env.txt"), "utf8")).toContain("node: 24.0.0\n");
    expect(JSON.parse(readFileSync(results("engine", "closed-b3-c2-r2.json"), "utf8"))).toMatchObject({
      arm: "engine",
      repeat: 2,
      result: { examples: 3000 },
    });
    for (const file of ["closed-b1-c2-r1.monitor.json", "server-r1.log", "server-r2.log"]) {
      expect(existsSync(results("py", file))).toBe(true);
    }
    expect(existsSync(results("charts", "throughput.dark.svg"))).toBe(true);
    expect(readFileSync(results("report.html"), "utf8")).toContain("<title>Benchmark: dcnv2-lite on cpu</title>");
    // Model, devices, 2 prepare, and start, 2 parity, 2 load, stop of 2 arms in 2 repeats, report.
    expect(shown).toContain("29 steps");
    expect(shown).toMatch(/\[ 1\/29\] model .*\n/);
    expect(shown).toMatch(/\[ 2\/29\] dense network on this CPU .*\n/);
    expect(shown).toMatch(/\[28\/29\] engine, repeat 2: stop /);
  });

  it("offers shares of each arm's own peak, the same rate in every repeat", async () => {
    const rates: number[] = [];
    let points = 0;
    const measure: Measure = async (request) => {
      const { mode } = request.task;
      if (mode.kind === "open") rates.push(mode.offeredRps);
      const { load, ...rest } = await measured(request);
      // Closed-loop points of the second repeat are faster.
      return {
        ...rest,
        load: { ...load, examplesPerS: load.examplesPerS * (++points > 6 ? 2 : 1), dropped: 1, late: 2 },
      };
    };
    const { summary } = await run([fakeArm("engine")], { measure, flags: { repeats: "2", open_loop: "on" } });
    expect(rates).toEqual([500, 800, 500, 800, 500, 800, 500, 800]);
    expect(
      summary.points
        .filter(({ mode }) => mode === "open")
        .map(({ bReq, offeredRps, peakFraction, dropped, repeats }) => [
          bReq,
          offeredRps,
          peakFraction,
          dropped,
          repeats.length,
        ]),
    ).toEqual([
      [1, 500, 0.5, 2, 2],
      [1, 800, 0.8, 2, 2],
      [3, 500, 0.5, 2, 2],
      [3, 800, 0.8, 2, 2],
    ]);
    expect(JSON.parse(readFileSync(results("engine", "open-b3-p80-r2.json"), "utf8"))).toMatchObject({
      mode: "open",
      offeredRps: 800,
      repeat: 2,
    });
  });

  it("leaves out the open loop of an arm without a peak, and says so", async () => {
    const measure: Measure = async (request) => {
      const { load, ...rest } = await measured(request);
      return { ...rest, load: { ...load, errors: { INTERNAL: 1 } } };
    };
    const { summary } = await run([fakeArm("engine")], {
      measure,
      flags: { open_loop: "on", request_batch_sizes: "1" },
    });
    expect(summary.points.map(({ mode }) => mode)).toEqual(["closed"]);
    expect(summary.arms?.[0]?.warnings).toEqual([
      "no open loop at 50 % of the peak at B_req 1: no closed-loop point without errors to take the rate from",
      "no open loop at 80 % of the peak at B_req 1: no closed-loop point without errors to take the rate from",
    ]);
  });

  it("reports an arm that ends before it is healthy, with its log, and measures the others", async () => {
    const { summary, exitCode } = await run([fakeArm("engine", { mode: "early-exit" }), fakeArm("py")]);
    expect(exitCode).toBe(1);
    expect(summary.arms).toEqual([
      {
        arm: "engine",
        title: "fake engine",
        family: "engine",
        status: "failed",
        reason: "engine, repeat 1: start: the server ended during its start: exit code 3",
        logTail: ["reading tables", "cannot open tables.safetensors: no such file"],
      },
      { arm: "py", title: "fake py", family: "engine", status: "ok" },
    ]);
    expect(summary.points.map(({ arm }) => arm)).toEqual(["py", "py"]);
    expect(shown).toContain("| cannot open tables.safetensors: no such file");
    expect(readFileSync(results("REPORT.md"), "utf8")).toContain("cannot open tables.safetensors");
  });

  it("reports an arm that crashes under load, and keeps what it measured before", async () => {
    let crashes = 0;
    const measure: Measure = async (request) =>
      request.task.requestSize === 3 && ++crashes <= 2 ? await crashing(request) : await measured(request);
    const { summary, exitCode } = await run([fakeArm("engine"), fakeArm("py")], { measure });
    expect(exitCode).toBe(1);
    expect(summary.arms?.[0]).toMatchObject({
      status: "failed",
      reason: "engine, repeat 1: load, B_req 3, C 2: the server ended during load: exit code 7",
      logTail: ["listening", "out of memory"],
    });
    expect(summary.points.map(({ arm, bReq }) => [arm, bReq])).toEqual([
      ["engine", 1],
      ["py", 1],
      ["py", 3],
    ]);
  });

  it("measures a point once more with a new server when the old one was killed, and says so", async () => {
    let kills = 0;
    const measure: Measure = async (request) => {
      if (++kills > 1) return await measured(request);
      process.kill(request.serverPid, "SIGKILL");
      return await new Promise((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason as Error));
      });
    };
    const { summary, exitCode } = await run([fakeArm("engine")], { measure });
    expect(exitCode).toBe(0);
    expect(summary.points.map(({ bReq, repeats }) => [bReq, repeats.length])).toEqual([
      [1, 1],
      [3, 1],
    ]);
    const warning =
      "failed once and was measured again: engine, repeat 1: load, B_req 1, C 2: the server ended during load: signal SIGKILL";
    expect(summary.arms?.[0]).toMatchObject({ status: "ok", warnings: [warning] });
    expect(shown).toContain(warning);
    expect(readFileSync(results("REPORT.md"), "utf8")).toContain(warning);
    expect(existsSync(results("engine", "server-r1-2.log"))).toBe(true);
  });

  it("measures a point once more with the same server when only the load generator failed", async () => {
    let failures = 0;
    const measure: Measure = async (request) => {
      if (++failures === 1) throw new Error("no connection");
      return await measured(request);
    };
    const { summary, exitCode } = await run([fakeArm("engine")], { measure });
    expect(exitCode).toBe(0);
    expect(summary.arms?.[0]?.warnings).toEqual([
      "failed once and was measured again: engine, repeat 1: load, B_req 1, C 2: no connection",
    ]);
    expect(existsSync(results("engine", "server-r1-2.log"))).toBe(false);
  });

  it("takes another port when something else took the first one meanwhile", async () => {
    const arm = fakeArm("engine");
    const ports: number[] = [];
    const unlucky: Arm = {
      ...arm,
      command: (options) => {
        ports.push(options.port);
        if (ports.length > 1) return arm.command(options);
        const script = `console.error("listen EADDRINUSE: address already in use 127.0.0.1:" + ${options.port}); process.exit(1)`;
        return { file: process.execPath, args: ["-e", script], env: {} };
      },
    };
    const { exitCode } = await run([unlucky]);
    expect(exitCode).toBe(0);
    expect(ports).toHaveLength(2);
    expect(shown).toContain(`port ${ports[0]} is in use by another process: once more on another`);
  });

  it("continues a run that was stopped: what was measured stays, what is left is measured", async () => {
    const measurements: string[] = [];
    const counting: Measure = async (request) => {
      if (measurements.length === 3) {
        stop.abort(new Error("stopped by SIGINT"));
        throw request.signal.reason;
      }
      measurements.push(`${request.task.requestSize} ${request.task.seed}`);
      return await measured(request);
    };
    const arms = [fakeArm("engine"), fakeArm("py")];
    const stopped = await run(arms, { measure: counting, flags: { repeats: "2" } });
    expect(stopped.exitCode).toBe(130);
    expect(shown).toContain("the same command with --resume goes on");
    expect(stopped.summary.points).toHaveLength(3);

    stop = new AbortController();
    shown = "";
    const later: string[] = [];
    const measure: Measure = async (request) => {
      later.push(`${request.task.requestSize} ${request.task.seed}`);
      return await measured(request);
    };
    const { summary, exitCode } = await run(arms, { measure, flags: { repeats: "2", resume: true } });
    expect(exitCode).toBe(0);
    expect(shown).toContain("continued: 3 of 8 measurements are there, 5 are left");
    // The rest of the first repeat of py, then the second repeat of both.
    expect(later).toEqual(["3 1", "1 2", "3 2", "1 2", "3 2"]);
    expect(summary.interrupted).toBeUndefined();
    expect(summary.points.map(({ arm, bReq, repeats }) => [arm, bReq, repeats.length])).toEqual([
      ["engine", 1, 2],
      ["engine", 3, 2],
      ["py", 1, 2],
      ["py", 3, 2],
    ]);
    expect(summary.environment.startedAt).toBe(stopped.summary.environment.startedAt);
    expect(summary.environment["resumedAt"]).toHaveLength(1);
    expect(stopped.summary.warnings).toEqual([NOT_PINNED]);
    const [resumedAt] = summary.environment["resumedAt"] as [string];
    const continued = `^the run was continued at ${resumedAt}, when the load average was [\\d.]+$`;
    expect(summary.warnings).toEqual([NOT_PINNED, expect.stringMatching(new RegExp(continued))]);
    expect(readFileSync(results("REPORT.md"), "utf8")).toContain(`- the run was continued at ${resumedAt}, `);
    // What the server said in the first session stays beside what it said in the second.
    for (const log of ["server-r1.log", "server-r1-2.log"]) {
      expect(readFileSync(results("py", log), "utf8")).toBe("listening\n");
    }

    const again = await run(arms, { measure, flags: { repeats: "2", resume: true } });
    expect(again.exitCode).toBe(0);
    expect(again.summary.points).toEqual(summary.points);
    expect(later).toHaveLength(5);
    expect(again.summary.warnings).toHaveLength(3);
  });

  it("tells of the machine and the commit that it began on, and of what has changed since", async () => {
    const before = { node: "24.0.0", gitCommit: "a1", cpuModel: "Xeon" };
    const after = { node: "24.0.0", gitCommit: "b2", cpuModel: "Xeon" };
    const stopping: Measure = async ({ signal }) => {
      stop.abort(new Error("stopped by SIGINT"));
      throw signal.reason;
    };
    const first = await run([fakeArm("engine")], {
      measure: stopping,
      dependencies: { describeMachine: async () => before, describeEnvironment: async () => after },
    });
    const changed = "gitCommit: it was a1, now b2";
    expect(first.summary.environment).toMatchObject(before);
    expect(first.summary.warnings).toEqual([NOT_PINNED, `changed while the run went on: ${changed}`]);

    // As if the hypervisor had taken half of a long first session.
    const journal = JSON.parse(readFileSync(results("run.json"), "utf8")) as Record<string, unknown>;
    writeFileSync(results("run.json"), JSON.stringify({ ...journal, ticks: { all: 1e12, steal: 5e11 } }));
    stop = new AbortController();
    const elsewhere = { ...after, cpuModel: "EPYC" };
    const found = async (): Promise<typeof elsewhere> => elsewhere;
    const { summary } = await run([fakeArm("engine")], {
      flags: { resume: true },
      dependencies: { describeMachine: found, describeEnvironment: found },
    });
    expect(summary.environment).toMatchObject(before);
    expect(summary.warnings).toEqual([
      NOT_PINNED,
      `changed while the run went on: ${changed}`,
      expect.stringMatching(new RegExp(`^the run was continued at .*; ${changed}; cpuModel: it was Xeon, now EPYC$`)),
    ]);
    expect(shown).toContain(`; ${changed}; cpuModel: it was Xeon, now EPYC\n`);
    if (existsSync("/proc/stat")) expect(summary.environment.stealFraction).toBe(0.5);
  });

  it("reports although the environment cannot be described", async () => {
    const describeEnvironment = (): Promise<never> => Promise.reject(new Error("no space left"));
    const { summary, exitCode } = await run([fakeArm("engine")], { dependencies: { describeEnvironment } });
    expect(exitCode).toBe(0);
    expect(summary.environment.node).toBe("24.0.0");
    expect(summary.warnings).toEqual([NOT_PINNED, "the environment is not known in whole: no space left"]);
  });

  it("reports a run that was stopped before it was found out that there is no Python", async () => {
    stop.abort(new Error("stopped by SIGINT"));
    const arm: Arm = {
      ...fakeArm("py", { family: "python" }),
      command: () => {
        throw new Error("no usable Python: need Python 3.11");
      },
    };
    const { summary, exitCode } = await run([arm]);
    expect(exitCode).toBe(130);
    expect(summary.interrupted).toBe(true);
    expect(existsSync(results("REPORT.md"))).toBe(true);
  });

  it("warns if the bench itself could not leave the server's CPUs", async () => {
    const leaveServerCpus = (): string => "taskset: exit code 1";
    const { summary } = await run([fakeArm("engine")], { flags: { repeats: "2" }, dependencies: { leaveServerCpus } });
    const warning = "the bench itself may have run on the server's CPUs: taskset: exit code 1";
    expect(summary.warnings).toEqual([NOT_PINNED, warning]);
    expect(shown.split(warning)).toHaveLength(2);
  });

  it("compares the devices of this CPU once, also when the run is continued", async () => {
    const tasks: object[] = [];
    const measureDenseNetwork: MeasureDenseNetwork = async ({ task, cpus }) => {
      tasks.push({ ...task, cpus });
      return { rows: ROWS, warnings: ["the devices compared were not pinned: thread 7"] };
    };
    const measure: Measure = async ({ signal }) => {
      stop.abort(new Error("stopped by SIGINT"));
      throw signal.reason;
    };
    const flags = { repeats: "2" };
    const stopped = await run([fakeArm("engine")], { measure, measureDenseNetwork, flags });
    expect(stopped.summary).toMatchObject({ interrupted: true, denseNetwork: ROWS });

    stop = new AbortController();
    const { summary } = await run([fakeArm("engine")], { measureDenseNetwork, flags: { ...flags, resume: true } });
    const bundleDir = path.join(workDir, "bundles", "dcnv2-lite-500");
    expect(tasks).toEqual([{ bundleDir, batch: 128, numThreads: 1, rounds: 2, seed: 1, cpus: [0] }]);
    expect(summary.denseNetwork).toEqual(ROWS);
    expect(summary.warnings).toHaveLength(3);
    expect(summary.warnings?.at(-1)).toBe("the devices compared were not pinned: thread 7");
    expect(summary.points).toHaveLength(2);
    expect(readFileSync(results("REPORT.md"), "utf8")).toContain("| a device | float32 | 1,280 | 1.00× | 1.00e-7 |\n");
  });

  it("warns if devices could not be compared, measures the arms, and compares again when continued", async () => {
    const measureDenseNetwork: MeasureDenseNetwork = () => Promise.reject(new Error("signal SIGSEGV"));
    const { summary, exitCode } = await run([fakeArm("engine")], { measureDenseNetwork });
    expect(exitCode).toBe(0);
    const warning = "the dense network on this CPU was not measured: signal SIGSEGV";
    expect(summary.warnings).toEqual([NOT_PINNED, warning]);
    expect(summary.denseNetwork).toBeUndefined();
    expect(summary.points).toHaveLength(2);
    expect(shown).toContain(warning);
    expect(readFileSync(results("REPORT.md"), "utf8")).toContain(
      `## Failures and warnings\n\n- ${NOT_PINNED}\n- ${warning}\n`,
    );

    const again = await run([fakeArm("engine")], { flags: { resume: true } });
    expect(again.exitCode).toBe(0);
    expect(again.summary.denseNetwork).toEqual(ROWS);
    expect(again.summary.warnings).not.toContain(warning);
    expect(again.summary.points).toEqual(summary.points);
  });

  it("tries an arm again that failed, when a run is continued", async () => {
    const journals: string[] = [];
    const measure: Measure = async (request) => {
      journals.push(readFileSync(results("run.json"), "utf8"));
      return await measured(request);
    };
    const py = fakeArm("py");
    const failed = await run([fakeArm("engine", { mode: "early-exit" }), py], { measure });
    expect(failed.exitCode).toBe(1);
    // It is kept at once, for a run that does not get so far as to write a report.
    expect(JSON.parse(journals[0] ?? "")).toMatchObject({ findings: { failed: [{ arm: "engine" }] } });
    const { summary, exitCode } = await run([fakeArm("engine"), py], { flags: { resume: true } });
    expect(exitCode).toBe(0);
    expect(summary.arms?.[0]).toMatchObject({
      status: "ok",
      warnings: [`failed before the run was continued: ${failed.summary.arms?.[0]?.reason}`],
    });
    expect(summary.points).toHaveLength(4);
  });

  it("continues no run with other settings, and leaves its results alone", async () => {
    await run([fakeArm("engine")]);
    const before = readFileSync(results("summary.json"), "utf8");
    await expect(run([fakeArm("engine")], { flags: { resume: true, concurrencies: "4" } })).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("concurrencies: it had [2], now [4]"),
    });
    expect(readFileSync(results("summary.json"), "utf8")).toBe(before);
  });

  it("has its work_dir for itself, and gives it back", async () => {
    let second: Promise<unknown> | undefined;
    const measure: Measure = async (request) => {
      second ??= run([fakeArm("py")]);
      await expect(second).rejects.toMatchObject({ code: "usage", message: expect.stringContaining(workDir) });
      return await measured(request);
    };
    const { summary, exitCode } = await run([fakeArm("engine")], { measure });
    expect(exitCode).toBe(0);
    expect(summary.arms?.map(({ arm }) => arm)).toEqual(["engine"]);
    expect(readdirSync(workDir)).toEqual(["results"]);
    expect((await run([fakeArm("engine")])).exitCode).toBe(0);
  });

  it("puts no load on an arm whose scores are wrong", async () => {
    const { summary, exitCode } = await run([fakeArm("engine", { mode: "wrong" })]);
    expect(exitCode).toBe(1);
    expect(summary.points).toEqual([]);
    expect(summary.parity).toEqual([{ arm: "engine", bReq: 1, maxAbsDiff: expect.closeTo(0.01, 6), ok: false }]);
    expect(summary.arms?.[0]?.reason).toMatch(
      /parity, B_req 1: scores are not the reference's at B_req 1: largest difference 1.00e-2, expected at most 1e-4$/,
    );
  });

  it.each([
    { mode: "crash", exit: "exit code 7", logTail: ["listening", "no rows for sparse_0"] },
    { mode: "killed", exit: "signal SIGKILL", logTail: ["listening"] },
  ] as const)("reports an arm that ends in the parity check with $exit, twice, and with its log", async (example) => {
    const { mode, exit, logTail } = example;
    const { summary, exitCode } = await run([fakeArm("engine", { mode }), fakeArm("py")]);
    expect(exitCode).toBe(1);
    const doing = "engine, repeat 1: parity, B_req 1";
    const ended = `${doing}: the server ended during the parity check at B_req 1: ${exit}`;
    expect(summary.arms).toEqual([
      {
        arm: "engine",
        title: "fake engine",
        family: "engine",
        status: "failed",
        reason: ended,
        logTail,
        warnings: [`failed once and was checked again: ${ended}`],
      },
      { arm: "py", title: "fake py", family: "engine", status: "ok" },
    ]);
    expect(summary.parity?.map(({ arm, ok }) => [arm, ok])).toEqual([
      ["py", true],
      ["py", true],
    ]);
    expect(shown).not.toContain("scores");
    for (const log of ["server-r1.log", "server-r1-2.log"]) expect(existsSync(results("engine", log))).toBe(true);
  });

  it("checks once more with a new server when the old one ended in the parity check, and says so", async () => {
    let starts = 0;
    const arm: Arm = {
      ...fakeArm("engine"),
      command: ({ port }) => fakeServerCommand(port, ++starts === 1 ? "crash" : "ok"),
    };
    const { summary, exitCode } = await run([arm]);
    expect(exitCode).toBe(0);
    expect(starts).toBe(2);
    expect(summary.arms?.[0]).toMatchObject({
      status: "ok",
      warnings: [
        "failed once and was checked again: engine, repeat 1: parity, B_req 1: the server ended during the parity check at " +
          "B_req 1: exit code 7",
      ],
    });
    expect(summary.parity?.map(({ bReq, ok }) => [bReq, ok])).toEqual([
      [1, true],
      [3, true],
    ]);
    expect(summary.points).toHaveLength(2);
  });

  it("kills an arm that ignores SIGTERM, and warns", async () => {
    const arm = fakeArm("engine", { mode: "stubborn", notifyPort: lifeLine.port });
    const { summary, exitCode } = await run([arm], { drainMs: 1 });
    expect(exitCode).toBe(0);
    expect(summary.arms?.[0]?.warnings).toEqual(["did not end within 0.001 s of SIGTERM, and was killed"]);
    const { ended } = await lifeLine.connected();
    await ended;
  });

  it("skips an arm that this machine cannot run, and fails only if it was named", async () => {
    const { summary, exitCode } = await run([fakeArm("engine"), fakeArm("py", { missing: "Python 3.11" })]);
    expect(summary.arms?.[1]).toMatchObject({
      status: "skipped",
      reason: "This machine lacks what it needs: Python 3.11",
    });
    expect(summary.points.map(({ arm }) => arm)).toEqual(["engine", "engine"]);
    expect(exitCode).toBe(1);
  });

  it("stops when told to, leaves no server behind, and reports what it has", async () => {
    let points = 0;
    const measure: Measure = async (request) => {
      if (++points === 1) return await measured(request);
      stop.abort(new Error("stopped by SIGINT"));
      return await new Promise((_, reject) => reject(request.signal.reason as Error));
    };
    const arm = fakeArm("engine", { notifyPort: lifeLine.port });
    const { summary, exitCode } = await run([arm, fakeArm("py")], { measure });
    const { ended } = await lifeLine.connected();
    await ended;
    expect(exitCode).toBe(130);
    expect(summary.interrupted).toBe(true);
    expect(summary.arms?.map(({ status }) => status)).toEqual(["unfinished", "unfinished"]);
    expect(summary.points).toHaveLength(1);
    expect(readFileSync(results("REPORT.md"), "utf8")).toContain("**Incomplete.**");
  });

  it("says that the disk is full, ends the server, keeps what was measured, and goes on from there", async (context) => {
    const mount = spawnSync("mount", ["-t", "tmpfs", "-o", "size=512k", "tmpfs", workDir], { encoding: "utf8" });
    if (mount.status !== 0) context.skip(`needs the right to mount a tmpfs: ${mount.error?.message ?? mount.stderr}`);
    try {
      const filler = path.join(workDir, "filler");
      let points = 0;
      const measure: Measure = async (request) => {
        if (++points === 2) fillDisk(filler);
        return await measured(request);
      };
      const arm = fakeArm("engine", { notifyPort: lifeLine.port });
      await expect(run([arm], { measure })).rejects.toMatchObject({
        code: "results_failed",
        message: expect.stringMatching(
          /^cannot write .*ENOSPC.* \(the disk is full\)\nWhat was measured before is in .*--resume goes on\.$/,
        ),
      });
      const { ended } = await lifeLine.connected();
      await ended;
      expect(existsSync(results("engine", "closed-b1-c2-r1.json"))).toBe(true);
      expect(readdirSync(results("engine")).filter((file) => file.endsWith(".partial"))).toEqual([]);

      rmSync(filler);
      const { summary, exitCode } = await run([fakeArm("engine")], { flags: { resume: true } });
      expect(exitCode).toBe(0);
      expect(summary.points.map(({ bReq }) => bReq)).toEqual([1, 3]);
      expect(shown).toContain("continued: 1 of 2 measurements are there, 1 are left");
    } finally {
      spawnSync("umount", ["--lazy", workDir]);
    }
  });

  it("ends without leaving a server behind when results cannot be written", async () => {
    const measure: Measure = async (request) => {
      mkdirSync(results("engine", "closed-b1-c2-r1.json.partial"));
      return await measured(request);
    };
    const arm = fakeArm("engine", { notifyPort: lifeLine.port });
    await expect(run([arm], { measure })).rejects.toMatchObject({
      code: "results_failed",
      message: expect.stringMatching(/^cannot write .*closed-b1-c2-r1\.json: EISDIR/),
    });
    const { ended } = await lifeLine.connected();
    await ended;
  });
});
