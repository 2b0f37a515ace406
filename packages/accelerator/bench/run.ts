import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { openDevice, type SharedFloat32Array } from "@dlrm/accelerator";
import * as ort from "onnxruntime-node";
import { encodeOnnx } from "../test/onnx-fixture.ts";
import { denseNetwork } from "./dense-network.ts";
import { denseNetworkFigures } from "./dense-network-devices.ts";
import { eventLoopFigures } from "./event-loop-delay.ts";
import { leakFigures } from "./leaks.ts";
import { pjrtFigures } from "./pjrt.ts";
import { figure, writeFigures, type Figure } from "./figures.ts";

// What a call costs beyond the network itself, whether the caller's loop stays free, and whether anything leaks.

const { values } = parseArgs({
  options: {
    // Of opening and closing, and how often they are repeated.
    cycles: { type: "string", default: "1000" },
    rounds: { type: "string", default: "3" },
    calls: { type: "string", default: "2000" },
    // `call`, `loop`, `leak`, `int8`, `pjrt`, `network`: only these; other results stay in the file.
    only: { type: "string", default: "" },
  },
});
const only = values.only === "" ? [] : values.only.split(",");
const wanted = (part: string): boolean => only.length === 0 || only.includes(part);
const cycles = Number(values.cycles);
const calls = Number(values.calls);
const ROUNDS = 5;

function shared(length: number): SharedFloat32Array {
  return new Float32Array(new SharedArrayBuffer(length * 4));
}

function makeBatch(rows: number) {
  const inputs = { dense: shared(rows * 13).fill(0.5), pooled: shared(rows * 26 * 128).fill(0.1) };
  return { inputs, outputs: { scores: shared(rows) } };
}

/** Microseconds and CPU microseconds of one call, awaited before the next. */
async function timeCalls(count: number, call: () => Promise<unknown>): Promise<{ micros: number; cpuMicros: number }> {
  for (let i = 0; i < count / 10; i++) await call();
  const cpu = process.cpuUsage();
  const began = performance.now();
  for (let i = 0; i < count; i++) await call();
  const micros = ((performance.now() - began) * 1000) / count;
  const { user, system } = process.cpuUsage(cpu);
  return { micros, cpuMicros: (user + system) / count };
}

const simulated = {
  kind: "simulated",
  w: new Float32Array(13).fill(0.1),
  v: new Float32Array(26 * 128).fill(0.01),
} as const;

/** A device that takes no time: what is left is the way there and back. */
async function callOverhead(): Promise<Figure[]> {
  const device = await openDevice({ ...simulated, buckets: [1], fixedMicros: 0, microsPerExample: 0 });
  const { inputs, outputs } = makeBatch(1);
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++)
    rounds.push(await timeCalls(calls, () => device.execute(1, inputs, outputs)));
  await device.close();
  return [
    figure(
      "call_overhead_micros",
      "µs",
      rounds.map(({ micros }) => micros),
    ),
    figure(
      "call_overhead_cpu_micros",
      "µs",
      rounds.map(({ cpuMicros }) => cpuMicros),
    ),
  ];
}

/** The same small network by `session.run` on the caller's thread and by the device, alternating. */
async function onnxRuntimeOverhead(modelPath: string): Promise<Figure[]> {
  const session = await ort.InferenceSession.create(modelPath, { intraOpNumThreads: 1 });
  const device = await openDevice({ kind: "onnxruntime", modelPath, buckets: [1], numThreads: 1 });
  const { inputs, outputs } = makeBatch(1);
  const feeds = {
    dense: new ort.Tensor("float32", inputs.dense, [1, 13]),
    pooled: new ort.Tensor("float32", inputs.pooled, [1, 26, 128]),
  };
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const direct = await timeCalls(calls / 4, () => session.run(feeds));
    const byDevice = await timeCalls(calls / 4, () => device.execute(1, inputs, outputs));
    ratios.push(byDevice.micros / direct.micros);
  }
  await session.release();
  await device.close();
  return [figure("onnxruntime_b1_vs_session_run", "ratio of call times", ratios)];
}

/** By how much a simulated call is longer than it should be, and what computing its scores costs. */
async function simulatedAccuracy(): Promise<Figure[]> {
  const [fixedMicros, microsPerExample] = [350, 4];
  const sleeping = await openDevice({ ...simulated, buckets: [1, 128], fixedMicros, microsPerExample });
  const { inputs, outputs } = makeBatch(128);
  const figures: Figure[] = [];
  for (const bucket of [1, 128]) {
    const overshoots: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const before = sleeping.stats.busyMicros;
      for (let i = 0; i < calls / 10; i++) await sleeping.execute(bucket, inputs, outputs);
      const busy = (sleeping.stats.busyMicros - before) / (calls / 10);
      overshoots.push(busy - fixedMicros - microsPerExample * bucket);
    }
    figures.push(figure(`simulated_b${bucket}_overshoot_micros`, "µs", overshoots));
  }
  await sleeping.close();
  const computing = await openDevice({ ...simulated, buckets: [128], fixedMicros: 0, microsPerExample: 0 });
  const perExample: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = computing.stats.busyMicros;
    for (let i = 0; i < calls / 10; i++) await computing.execute(128, inputs, outputs);
    perExample.push((computing.stats.busyMicros - before) / (calls / 10) / 128);
  }
  await computing.close();
  return [...figures, figure("simulated_compute_micros_per_example", "µs", perExample)];
}

/** How much faster int8 is than float32 at a batch of 128, alternating, and by how much its scores differ. */
async function int8Speed(modelPath: string): Promise<Figure[]> {
  const spec = { kind: "onnxruntime", modelPath, buckets: [128], numThreads: 1 } as const;
  const exact = await openDevice(spec);
  const int8 = await openDevice({ ...spec, precision: "int8" });
  const { inputs, outputs } = makeBatch(128);
  const ratios: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const slow = await timeCalls(20, () => exact.execute(128, inputs, outputs));
    const fast = await timeCalls(20, () => int8.execute(128, inputs, outputs));
    ratios.push(slow.micros / fast.micros);
  }
  await Promise.all([exact.close(), int8.close()]);
  return [
    figure("int8_b128_vs_float32", "ratio of throughputs", ratios),
    figure("int8_max_abs_score_error", "score", [int8.precision.error!.maxAbs]),
  ];
}

const folder = await mkdtemp(path.join(tmpdir(), "dlrm-accelerator-bench-"));
try {
  const small = path.join(folder, "small.onnx");
  const large = path.join(folder, "large.onnx");
  await writeFile(small, encodeOnnx(denseNetwork([16])));
  await writeFile(large, encodeOnnx(denseNetwork([256, 128, 32])));
  const figures: Figure[] = [];
  const add = async (part: string, measure: () => Promise<Figure[]>): Promise<void> => {
    if (wanted(part)) figures.push(...(await measure()));
  };
  await add("leak", () => leakFigures(cycles, Number(values.rounds), small));
  await add("call", callOverhead);
  await add("call", () => onnxRuntimeOverhead(small));
  await add("call", simulatedAccuracy);
  await add("loop", eventLoopFigures);
  await add("int8", () => int8Speed(large));
  await add("pjrt", () => pjrtFigures(calls));
  await add("network", denseNetworkFigures);
  console.error(`written: ${await writeFigures(figures, only.length > 0)}`);
} finally {
  await rm(folder, { recursive: true });
}
