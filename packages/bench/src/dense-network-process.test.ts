import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { exportBundle, presetSpec } from "@dlrm/model";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { callsOfTurn, denseNetworkRow } from "./compare-dense-network.ts";
import { type DenseNetworkRequest, measureDenseNetwork } from "./dense-network-process.ts";
import type { DenseNetworkTask } from "./dense-network-task.ts";
import { readMachine } from "./machine.ts";
import { ProcessGuard } from "./process-guard.ts";

const PLUGIN = path.join(
  import.meta.dirname,
  "../../../node_modules/.cache/dlrm-pjrt/lammps-jax-pjrt-cpu-0.11.2/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
);
/** Without a C++ compiler there is none, and that is what is told. */
const hasBinding = readdirSync(path.join(import.meta.dirname, "../../accelerator/native")).some((file) =>
  file.endsWith(".node"),
);
const missing =
  existsSync(PLUGIN) && hasBinding ? "" : " (skipped: needs node packages/accelerator/native/fetch-test-plugins.mts)";

const machine = readMachine();
let dir: string;
let guard: ProcessGuard;

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), "bench-devices-"));
  // The whole dense network of the smoke run, its tables cut short.
  const spec = presetSpec("dcnv2-smoke", { maxVocabSize: 3 });
  await exportBundle({ spec, dir: path.join(dir, "bundle"), buckets: [8] });
});
afterAll(() => rmSync(dir, { recursive: true }));
beforeEach(() => {
  guard = new ProcessGuard();
  vi.stubEnv("PJRT_PLUGIN_PATH", undefined);
});
afterEach(() => {
  guard.close();
  vi.unstubAllEnvs();
});

function request(changes: Partial<DenseNetworkTask> = {}, signal = new AbortController().signal): DenseNetworkRequest {
  return {
    task: { bundleDir: path.join(dir, "bundle"), batch: 8, numThreads: 1, rounds: 1, seed: 1, ...changes },
    cpus: machine.cpus.slice(0, 1),
    taskset: machine.taskset,
    guard,
    logFile: path.join(dir, "dense-network.log"),
    signal,
  };
}

describe("measureDenseNetwork", { timeout: 120_000 }, () => {
  it("measures onnxruntime in both precisions, and says that no plugin is named", async () => {
    // A variable that is there but empty names none either.
    vi.stubEnv("PJRT_PLUGIN_PATH", "");
    const told: string[] = [];
    const { rows, warnings } = await measureDenseNetwork({
      ...request({ rounds: 3 }),
      onProgress: (doing) => told.push(doing),
    });
    expect(warnings).toEqual([]);
    expect(told).toEqual([
      "opening onnxruntime, float32",
      "opening onnxruntime, int8",
      "opening PJRT, float32",
      "scores of the reference",
      "devices take turns",
    ]);
    const measured = {
      device: expect.stringMatching(/^onnxruntime \d+\.\d+\.\d+ \(cpu, 1 thread/),
      batch: 8,
      numThreads: 1,
      callMicros: [expect.any(Number), expect.any(Number), expect.any(Number)],
      maxAbsError: expect.any(Number),
      examplesPerS: expect.any(Number),
    };
    expect(rows).toEqual([
      { ...measured, precision: "float32" },
      { ...measured, precision: "int8" },
      {
        device: "PJRT",
        precision: "float32",
        batch: 8,
        numThreads: 1,
        examplesPerS: null,
        maxAbsError: null,
        callMicros: [],
        whyNot: "neither --device pjrt:PATH nor PJRT_PLUGIN_PATH names a plugin for CPUs",
      },
    ]);
    const [exact, int8] = rows;
    expect(exact!.maxAbsError).toBeLessThan(1e-5);
    expect(int8!.maxAbsError).toBeGreaterThan(1e-5);
    expect(int8!.maxAbsError).toBeLessThan(0.2);
    for (const { examplesPerS, callMicros } of [exact!, int8!]) {
      expect(examplesPerS).toBe(8e6 / callMicros.toSorted((a, b) => a - b)[1]!);
    }
  });

  it.skipIf(missing !== "")(`measures a plugin for CPUs in both precisions, too${missing}`, async () => {
    const { rows } = await measureDenseNetwork(request({ device: `pjrt:${PLUGIN}` }));
    expect(rows.map(({ device, precision, whyNot }) => [device.split(" ")[0], precision, whyNot])).toEqual([
      ["onnxruntime", "float32", undefined],
      ["onnxruntime", "int8", undefined],
      ["PJRT", "float32", undefined],
      ["PJRT", "bfloat16", undefined],
    ]);
    const [, , exact, rounded] = rows;
    expect(exact!.maxAbsError).toBeLessThan(1e-5);
    expect(rounded!.maxAbsError).toBeGreaterThan(1e-5);
    expect(rounded!.maxAbsError).toBeLessThan(0.02);
  });

  it("has a row for each device that cannot be opened, with why", async () => {
    vi.stubEnv("PJRT_PLUGIN_PATH", "/no/such/plugin.so");
    const { rows } = await measureDenseNetwork(request());
    const why = expect.stringContaining(hasBinding ? "/no/such/plugin.so" : "needs its native binding") as string;
    expect(rows.map(({ device, precision, whyNot }) => [device.split(" ")[0], precision, whyNot])).toEqual([
      ["onnxruntime", "float32", undefined],
      ["onnxruntime", "int8", undefined],
      ["PJRT", "float32", why],
      ["PJRT", "bfloat16", why],
    ]);
  });

  it("rejects if nothing can be compared", async () => {
    await expect(measureDenseNetwork(request({ bundleDir: path.join(dir, "none") }))).rejects.toMatchObject({
      code: "dense_network_failed",
      message: expect.stringContaining(`${path.join(dir, "none")} is not a bundle`) as string,
    });
  });

  it("ends at once when the run is stopped", async () => {
    const stop = new AbortController();
    const measuring = measureDenseNetwork({
      ...request({ rounds: 1e9 }, stop.signal),
      onProgress: (doing) => {
        if (doing === "devices take turns") stop.abort(new Error("stopped by SIGINT"));
      },
    });
    await expect(measuring).rejects.toMatchObject({ code: "interrupted", message: "stopped by SIGINT" });
  });
});

it.each([
  [[50_000, 160_000], 4],
  [[2000, 4300], 47],
  [[], 200_000],
])("with calls of %j µs a turn has %d", (callMicros, calls) => {
  expect(callsOfTurn(callMicros)).toBe(calls);
});

describe("denseNetworkRow", () => {
  const compared = {
    name: "PJRT cpu",
    kind: "pjrt",
    platform: "cpu",
    precision: "float32",
    bucket: 8,
    micros: [4000],
    examplesPerSecond: 2000,
  } as const;
  const task = { batch: 8, numThreads: 2 };
  const candidate = { title: "PJRT", precision: "float32" } as const;

  it("has what was measured", () => {
    expect(denseNetworkRow(task, candidate, { ...compared, maxAbsError: 0.5 })).toEqual({
      device: "PJRT cpu",
      precision: "float32",
      batch: 8,
      numThreads: 2,
      examplesPerS: 2000,
      maxAbsError: 0.5,
      callMicros: [4000],
    });
  });

  it("has no figures of a device whose scores are no numbers", () => {
    expect(denseNetworkRow(task, candidate, { ...compared, maxAbsError: Number.NaN })).toEqual({
      device: "PJRT cpu",
      precision: "float32",
      batch: 8,
      numThreads: 2,
      examplesPerS: null,
      maxAbsError: null,
      callMicros: [],
      whyNot: "its scores are not all numbers",
    });
  });
});
