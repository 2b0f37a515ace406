import path from "node:path";
import { create } from "@bufbuild/protobuf";
import type { Arm } from "@dlrm/arm-contract";
import { type Bundle, presetSpec } from "@dlrm/model";
import { PredictRequestSchema } from "@dlrm/proto";
import type { BenchDependencies } from "../src/bench-dependencies.ts";
import type { MeasureDenseNetwork } from "../src/dense-network-process.ts";
import type { Machine } from "../src/machine.ts";
import type { Measure } from "../src/measure.ts";
import type { Reference } from "../src/parity-check.ts";
import { PredictionClient } from "../src/prediction-client.ts";
import { Progress } from "../src/progress.ts";
import { runBench } from "../src/run-bench.ts";
import type { BenchOutcome } from "../src/run-report.ts";
import { resolveSettings } from "../src/settings.ts";
import { LifeLine } from "./fake-arm.ts";
import { fakeLoad, fakeMonitor } from "./fake-measurement.ts";
import { tempFolder } from "./temp-folder.ts";

const machine: Machine = { cpus: [0, 1], memoryBytes: 1e9, taskset: undefined };
/** On that machine. */
export const NOT_PINNED = "nothing was pinned, since there is no taskset: server and load generator shared all CPUs";
const FLAGS = { preset: "dcnv2-lite", max_vocab_size: "500", request_batch_sizes: "1,3", concurrencies: "2" };

/** Of a load generator that found 1,000 requests a second. */
export const measured: Measure = async ({ task }) => ({
  load: fakeLoad({ examples: 1000 * Number(task.requestSize), measuredFromNs: 0, measuredToNs: 10 }),
  server: fakeMonitor([
    [0, 0],
    [10, 50_000],
  ]),
  client: fakeMonitor([]),
  strays: [],
});

/** Sends what makes the fake server crash, and then waits for the end of the run or of the server. */
export const crashing: Measure = async ({ task, signal }) => {
  const client = new PredictionClient(task.host, task.port);
  await client.predict(create(PredictRequestSchema, { model: "crash" }), signal, 60_000).catch(() => undefined);
  client.close();
  return await new Promise((_, reject) => {
    const giveUp = (): void => reject(signal.reason as Error);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp);
  });
};

export const DENSE_NETWORK_ROWS: Awaited<ReturnType<MeasureDenseNetwork>>["rows"] = [
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

const comparedDevices: MeasureDenseNetwork = async () => ({ rows: DENSE_NETWORK_ROWS, warnings: [] });

/** The score that the fake server has, of the first id of the first feature. */
export const fakeForward: Reference["forward"] = async ({ batch, ids }) => {
  const first = ids[0] as Int32Array;
  const hotSize = first.length / batch;
  return Float64Array.from({ length: batch }, (_, example) => ((first[example * hotSize] as number) % 97) / 97);
};

export interface TrialOptions {
  readonly measure?: Measure;
  readonly measureDenseNetwork?: MeasureDenseNetwork;
  readonly flags?: Record<string, string | boolean>;
  readonly drainMs?: number;
  readonly dependencies?: Partial<BenchDependencies>;
}

/** Runs of the bench in one work_dir, with servers that are real processes and measurements that are made up. */
export class BenchTrial {
  readonly workDir: string = tempFolder("run");
  /** Of the server that has its port. */
  readonly lifeLine: LifeLine;
  /** Progress of all runs. */
  shown = "";
  /** Stops the run; after that, the next one needs a new one. */
  stop: AbortController = new AbortController();

  private constructor(lifeLine: LifeLine) {
    this.lifeLine = lifeLine;
  }

  static async open(): Promise<BenchTrial> {
    return new BenchTrial(await LifeLine.open());
  }

  /** One repeat of a closed loop with 2 callers at B_req 1 and 3, where flags don't say otherwise. */
  run(arms: readonly Arm[], options: TrialOptions = {}): Promise<BenchOutcome> {
    const spec = presetSpec("dcnv2-lite", { maxVocabSize: 500 });
    const bundle = { spec } as unknown as Bundle;
    const { workDir } = this;
    const dependencies: BenchDependencies = {
      arms,
      machine,
      progress: new Progress({ write: (text: string) => (this.shown += text) }),
      signal: this.stop.signal,
      measure: options.measure ?? measured,
      measureDenseNetwork: options.measureDenseNetwork ?? comparedDevices,
      prepareBundle: async () => bundle,
      openReference: async () => ({ forward: fakeForward, close: async () => undefined }),
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

  /** Path of a file of the last run. */
  results(...parts: string[]): string {
    return path.join(this.workDir, "results", ...parts);
  }

  close(): void {
    this.lifeLine.close();
  }
}
