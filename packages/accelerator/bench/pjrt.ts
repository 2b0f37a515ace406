import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { allocateTensor, openDevice, type Device, type PjrtSpec } from "@dlrm/accelerator";
import { loadPjrtNative } from "../src/pjrt-native.ts";
import { TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";
import { figure, type Figure } from "./figures.ts";

// PJRT on XLA's CPU plugin of the newest API: what a call costs from Node and from C++, and the dense network here and in JAX.

const ROUNDS = 5;
const CLIENT = fileURLToPath(new URL("../native/target/pjrt-client", import.meta.url));

/** y = x + x, [2, 3]: nothing but the call. */
const TRIVIAL =
  "module @trivial { func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n" +
  "  %0 = stablehlo.add %x, %x : tensor<2x3xf32>\n  return %0 : tensor<2x3xf32> } }\n";

const BATCH = 128;
/** The matrix products of DLRM-DCNv2's dense network, as one chain: [inputs, outputs] of each. */
const LAYERS: readonly (readonly [number, number])[] = [
  [3456, 512],
  [512, 3456],
  [3456, 512],
  [512, 3456],
  [3456, 512],
  [512, 3456],
  [3456, 1024],
  [1024, 1024],
  [1024, 512],
  [512, 256],
  [256, 1],
];

function chainProgram(batch: number): string {
  const type = (...shape: number[]): string => `tensor<${[...shape, "f32"].join("x")}>`;
  const lines: string[] = [];
  let x = "%x";
  for (const [i, [inputs, outputs]] of LAYERS.entries()) {
    const types = `(${type(batch, inputs)}, ${type(inputs, outputs)}) -> ${type(batch, outputs)}`;
    lines.push(`%d${i} = stablehlo.dot_general ${x}, %w${i}, contracting_dims = [1] x [0] : ${types}`);
    lines.push(`%y${i} = stablehlo.tanh %d${i} : ${type(batch, outputs)}`);
    x = `%y${i}`;
  }
  const weights = LAYERS.map(([inputs, outputs], i) => `%w${i}: ${type(inputs, outputs)}`);
  const head = `func.func public @main(%x: ${type(batch, LAYERS[0]![0])}, ${weights.join(", ")}) -> ${type(batch, 1)}`;
  return `module @chain { ${head} {\n  ${lines.join("\n  ")}\n  return ${x} : ${type(batch, 1)} } }\n`;
}

/** The same chain in JAX: a line of microseconds a call for each line it reads. */
const JAX_PROGRAM = `
import sys, time, jax, jax.numpy as jnp, numpy as np
layers = ${JSON.stringify(LAYERS)}
weights = [jnp.full(shape, 1 / shape[0], jnp.float32) for shape in layers]
@jax.jit
def chain(x, weights):
    for w in weights:
        x = jnp.tanh(x @ w)
    return x
x = np.ones((${BATCH}, 3456), np.float32)
for _ in range(3): np.asarray(chain(x, weights))
for _ in range(${ROUNDS}):
    began = time.perf_counter()
    for _ in range(10): np.asarray(chain(x, weights))
    print((time.perf_counter() - began) * 1e5, flush=True)
`;

async function microsOf(calls: number, call: () => unknown): Promise<number> {
  const began = performance.now();
  for (let i = 0; i < calls; i++) await call();
  return ((performance.now() - began) * 1000) / calls;
}

async function cppMicros(args: readonly string[]): Promise<number[]> {
  const { stdout } = await promisify(execFile)(CLIENT, args, { env: { ...process.env, PJRT_NPROC: "1" } });
  return stdout.trim().split("\n").map(Number);
}

function specOf(pluginPath: string): Pick<PjrtSpec, "kind" | "pluginPath" | "numThreads" | "cacheDir"> {
  return { kind: "pjrt", pluginPath, numThreads: 1, cacheDir: false };
}

/** One trivial call from C++, from the binding on one thread, and through a device, in this order in each round. */
async function callCost(pluginPath: string, folder: string, calls: number): Promise<Figure[]> {
  const file = path.join(folder, "trivial.mlir");
  await writeFile(file, TRIVIAL);
  const device = await openDevice({
    ...specOf(pluginPath),
    program: () => TRIVIAL,
    buckets: [2],
    inputs: [{ name: "x", width: [3] }],
    outputs: [{ name: "y", width: [3] }],
  });
  const native = loadPjrtNative();
  if (!("binding" in native)) throw new Error(native.whyNot);
  const { binding } = native;
  const client = binding.openClient(pluginPath, { cpu_device_count: 1 }, { PJRT_NPROC: "1" });
  const executable = binding.compile(client, Buffer.from(TRIVIAL), Uint8Array.of(0x1a, 4, 0x20, 1, 0x28, 1));
  binding.bind(executable, [[2, 3]], []);
  const [x, y] = [allocateTensor(6), allocateTensor(6)];
  const [cpp, direct, byDevice]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < ROUNDS; round++) {
    cpp.push(...(await cppMicros([pluginPath, file, String(calls), "1", "2x3", ""])));
    direct.push(await microsOf(calls, () => binding.run(executable, [x], [y])));
    byDevice.push(await microsOf(calls, () => device.execute(2, { x }, { y })));
  }
  await device.close();
  const ratio = (samples: readonly number[]): number[] => samples.map((micros, round) => micros / cpp[round]!);
  return [
    figure("pjrt_call_cpp_micros", "µs", cpp),
    figure("pjrt_call_vs_cpp", "ratio of call times", ratio(direct)),
    figure("pjrt_device_call_vs_cpp", "ratio of call times", ratio(byDevice)),
  ];
}

/** The chain at a batch of 128 on one core, here and by `jax.jit`, one after the other. */
async function chainCost(pluginPath: string): Promise<Figure[]> {
  const device: Device = await openDevice({
    ...specOf(pluginPath),
    program: chainProgram,
    buckets: [BATCH],
    inputs: [{ name: "x", width: [LAYERS[0]![0]] }],
    outputs: [{ name: "y", width: [1] }],
    weights: LAYERS.map(([inputs, outputs]) => new Float32Array(inputs * outputs).fill(1 / inputs)),
  });
  const [x, y] = [allocateTensor(BATCH * LAYERS[0]![0]).fill(1), allocateTensor(BATCH)];
  const here: number[] = [];
  for (let round = 0; round < ROUNDS; round++) here.push(await microsOf(10, () => device.execute(BATCH, { x }, { y })));
  await device.close();
  const figures = [figure("pjrt_b128_micros", "µs", here)];
  const python = process.env["DLRM_PYTHON"];
  if (!python) {
    console.error("pjrt_b128_vs_jax: not measured, needs DLRM_PYTHON, an interpreter with JAX");
    return figures;
  }
  const env = { ...process.env, PJRT_NPROC: "1", JAX_PLATFORMS: "cpu" };
  const { stdout } = await promisify(execFile)(python, ["-c", JAX_PROGRAM], { env });
  const jax = stdout.trim().split("\n").map(Number);
  const ratios = here.map((micros, round) => micros / jax[round]!);
  return [...figures, figure("pjrt_b128_vs_jax", "ratio of call times", ratios)];
}

/** No figures, and a line that says why, where there is no plugin. */
export async function pjrtFigures(calls: number): Promise<Figure[]> {
  const plugin = TEST_PLUGINS.at(-1)!;
  const missing = whatIsMissing(plugin) ?? (existsSync(CLIENT) ? undefined : "the C++ client (node native/build.mts)");
  if (missing !== undefined) {
    console.error(`PJRT: not measured, needs ${missing}`);
    return [];
  }
  const folder = await mkdtemp(path.join(tmpdir(), "dlrm-pjrt-bench-"));
  try {
    return [...(await callCost(plugin.pluginPath, folder, calls)), ...(await chainCost(plugin.pluginPath))];
  } finally {
    await rm(folder, { recursive: true });
  }
}
