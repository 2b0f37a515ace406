import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { allocateTensor, openDevice, type PjrtSpec } from "@dlrm/accelerator";
import { loadPjrtNative } from "../src/pjrt-native.ts";
import { TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";
import { figure, type Figure } from "./figures.ts";

// PJRT on XLA's CPU plugin of the newest API: what a call costs from Node and from C++.

const ROUNDS = 15;
const CLIENT = fileURLToPath(new URL("../native/target/pjrt-client", import.meta.url));

/** y = x + x, [2, 3]: nothing but the call. */
const TRIVIAL =
  "module @trivial { func.func public @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n" +
  "  %0 = stablehlo.add %x, %x : tensor<2x3xf32>\n  return %0 : tensor<2x3xf32> } }\n";

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
    return await callCost(plugin.pluginPath, folder, calls);
  } finally {
    await rm(folder, { recursive: true });
  }
}
