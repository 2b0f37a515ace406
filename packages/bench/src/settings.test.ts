import { arm as engine } from "@dlrm/arm-engine";
import { describe, expect, it } from "vitest";
import { BenchError } from "./bench-error.ts";
import { resolveSettings, type SettingsContext } from "./settings.ts";

const context: SettingsContext = {
  machine: { cpus: [0, 1], memoryBytes: 8e9, taskset: "/usr/bin/taskset" },
  presets: ["dcnv2-6m", "dcnv2-smoke", "dcnv2-lite"],
  arms: [
    { name: "engine", platforms: ["cpu", "sim"] },
    { name: "engine-batch", platforms: ["cpu", "sim"] },
    { name: "engine-nobatch", platforms: ["cpu"] },
    { name: "py", platforms: ["cpu", "cuda", "tpu", "sim"] },
  ],
  currentDir: "/somewhere",
};

function problemsOf(flags: Record<string, string | boolean>): string[] {
  try {
    resolveSettings(flags, context);
    return [];
  } catch (error) {
    if (error instanceof BenchError && error.code === "usage") return error.message.split("\n");
    throw error;
  }
}

describe("resolveSettings", () => {
  it("fills in defaults from the machine", () => {
    expect(resolveSettings({}, context)).toEqual({
      platform: "cpu",
      preset: "dcnv2-lite",
      maxVocabSize: undefined,
      arms: ["engine", "engine-batch", "engine-nobatch", "py"],
      armsNamed: false,
      requestBatchSizes: [1, 16, 128],
      concurrencies: [1, 4, 16, 64],
      durationS: 10,
      warmupS: 2,
      repeats: 3,
      openLoop: true,
      connections: 64,
      serverCpus: [0],
      clientCpus: [1],
      numThreads: 0,
      numProcesses: 1,
      clientProcesses: 1,
      maxBatchSize: 4096,
      idDistribution: "uniform",
      seed: 1,
      startTimeoutS: 300,
      workDir: "/somewhere/bench-work",
      dryRun: false,
      resume: false,
    });
  });

  it.each([
    ["sim", "dcnv2-6m", ["engine", "engine-batch", "py"]],
    ["cuda", "dcnv2-6m", ["py"]],
    ["tpu", "dcnv2-6m", ["py"]],
    ["cpu", "dcnv2-lite", ["engine", "engine-batch", "engine-nobatch", "py"]],
  ])("has defaults of platform %s: %s, %j", (platform, preset, arms) => {
    expect(resolveSettings({ platform }, context)).toMatchObject({ platform, preset, arms });
  });

  it("takes the smoke run's defaults, and what is given over them", () => {
    expect(resolveSettings({ smoke: true, duration: "1", arms: "engine" }, context)).toMatchObject({
      platform: "cpu",
      preset: "dcnv2-smoke",
      arms: ["engine"],
      armsNamed: true,
      requestBatchSizes: [1, 16],
      concurrencies: [1, 8],
      durationS: 1,
      openLoop: false,
    });
    expect(resolveSettings({ smoke: true, open_loop: "on" }, context).openLoop).toBe(true);
    expect(resolveSettings({ smoke: true }, context).arms).toEqual(["engine", "engine-batch", "engine-nobatch", "py"]);
  });

  it("takes what is given", () => {
    expect(
      resolveSettings(
        {
          platform: "sim",
          arms: "py, engine",
          server_cpus: "0-1",
          client_cpus: "1",
          concurrencies: "16,1,16",
          duration: "0.5",
          warmup: "0",
          id_distribution: "zipf:1.05",
          max_vocab_size: "1000",
          work_dir: "../w",
          dry_run: true,
        },
        context,
      ),
    ).toMatchObject({
      arms: ["py", "engine"],
      armsNamed: true,
      serverCpus: [0, 1],
      clientCpus: [1],
      concurrencies: [1, 16],
      durationS: 0.5,
      warmupS: 0,
      idDistribution: { zipf: 1.05 },
      maxVocabSize: 1000,
      workDir: "/w",
      dryRun: true,
    });
  });

  it.each([
    [{ platform: "gpu" }, '--platform: expected one of cpu, cuda, tpu, sim, got "gpu"'],
    [{ preset: "big" }, '--preset: expected one of dcnv2-6m, dcnv2-smoke, dcnv2-lite, got "big"'],
    [
      { arms: "enigne" },
      '--arms: expected arms among engine, engine-batch, engine-nobatch, py, got "enigne"; did you mean engine?',
    ],
    [
      { platform: "sim", arms: "engine-nobatch" },
      '--arms: expected arms that run on sim (engine, engine-batch, py), got "engine-nobatch"; did you mean engine-batch?',
    ],
    [{ arms: "," }, '--arms: expected at least one arm, got ","'],
    [{ duration: "-1" }, '--duration: expected a number of at least 0.1, got "-1"'],
    [{ duration: "1e3" }, '--duration: expected a number of at least 0.1, got "1e3"'],
    [{ repeats: "0" }, '--repeats: expected a whole number of at least 1, got "0"'],
    [{ repeats: "1.5" }, '--repeats: expected a whole number of at least 1, got "1.5"'],
    [{ concurrencies: "1,x" }, '--concurrencies: expected whole numbers of at least 1, separated by commas, got "1,x"'],
    [
      { request_batch_sizes: "0" },
      '--request_batch_sizes: expected whole numbers of at least 1, separated by commas, got "0"',
    ],
    [{ concurrencies: "1,65537" }, '--concurrencies: expected whole numbers of at most 65536, got "1,65537"'],
    [{ connections: "65537" }, '--connections: expected a whole number of at most 65536, got "65537"'],
    [{ num_threads: "1025" }, '--num_threads: expected a whole number of at most 1024, got "1025"'],
    [{ num_processes: "1025" }, '--num_processes: expected a whole number of at most 1024, got "1025"'],
    [{ repeats: "1001" }, '--repeats: expected a whole number of at most 1000, got "1001"'],
    [{ duration: "86400.1" }, '--duration: expected a number of at most 86400, got "86400.1"'],
    [{ server_cpus: "first" }, '--server_cpus: expected a list of CPUs, as in 0-3,8, got "first"'],
    [{ client_cpus: "1-2" }, '--client_cpus: expected CPUs among 0-1, got "1-2"'],
    [
      { id_distribution: "zipf" },
      '--id_distribution: expected uniform or zipf:<exponent>, as in zipf:1.05, got "zipf"',
    ],
    [{ id_distribution: "zipf:20" }, '--id_distribution: expected an exponent from 0.01 to 10, got "zipf:20"'],
    [{ id_distribution: "zipf:0" }, '--id_distribution: expected an exponent from 0.01 to 10, got "zipf:0"'],
    [{ request_batch_sizes: "1,4097" }, '--request_batch_sizes: expected whole numbers of at most 4096, got "1,4097"'],
    [{ max_batch_size: "4097" }, '--max_batch_size: expected a whole number of at most 4096, got "4097"'],
    [
      { device: "pjrt=/plugin.so" },
      '--device: expected one of onnxruntime, simulated, pjrt, pjrt:/path/of/plugin.so, got "pjrt=/plugin.so"',
    ],
    [{ device: "" }, '--device: expected a value that is not empty, got ""'],
    [{ max_vocab_size: "0" }, '--max_vocab_size: expected a whole number of at least 1, got "0"'],
    [{ work_dir: "" }, '--work_dir: expected a value that is not empty, got ""'],
    [{ max_batch_size: "64" }, "--max_batch_size: expected at least the largest of --request_batch_sizes, 128, got 64"],
    [{ connections: "1", client_processes: "2" }, "--client_processes: expected at most --connections, 1, got 2"],
  ])("refuses %j", (flags, problem) => {
    expect(problemsOf(flags as Record<string, string>)).toEqual([problem]);
  });

  it("takes the largest values", () => {
    const largest = { concurrencies: "65536", connections: "65536", num_threads: "1024", num_processes: "1024" };
    expect(problemsOf({ ...largest, repeats: "1000", duration: "86400", warmup: "86400" })).toEqual([]);
  });

  it.each(["onnxruntime", "simulated", "pjrt", "pjrt:/p.so", "pjrt:", "onnx", "cuda", "PJRT"])(
    "takes the device %s if the engine's server does",
    (device) => {
      const launch = { bundleDir: "/b", host: "127.0.0.1", port: 1, platform: "cpu", numThreads: 0 } as const;
      const others = { numProcesses: 1, maxBatchSize: 1, cacheDir: "/c" };
      const isTaken = (): boolean => {
        try {
          engine.command({ ...launch, ...others, device });
          return true;
        } catch {
          return false;
        }
      };
      expect(problemsOf({ device }).length === 0).toBe(isTaken());
    },
  );

  it("takes what the load generator and the servers take", () => {
    expect(problemsOf({ request_batch_sizes: "4096", max_batch_size: "4096" })).toEqual([]);
    expect(problemsOf({ id_distribution: "zipf:0.01" })).toEqual([]);
    expect(problemsOf({ id_distribution: "zipf:10" })).toEqual([]);
  });

  it("names every problem at once", () => {
    expect(problemsOf({ platform: "gpu", duration: "x", arms: "py" })).toHaveLength(2);
  });
});
