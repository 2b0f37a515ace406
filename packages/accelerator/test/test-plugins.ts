import { existsSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { loadPjrtNative } from "../src/pjrt-native.ts";

const CACHE = fileURLToPath(new URL("../../../node_modules/.cache/dlrm-pjrt", import.meta.url));

/** Compiled programs of tests that compile much. */
export const PROGRAM_CACHE: string = path.join(CACHE, "programs");

/** A PJRT plugin, from a wheel of the Python package index. */
export interface TestPlugin {
  /** For people, in names of tests. */
  readonly name: string;
  readonly apiVersion: string;
  readonly requirement: string;
  readonly wheel: string;
  /** Which of the release's wheels it is, as pip download takes it. */
  readonly wheelOptions: readonly string[];
  readonly sha256: string;
  readonly folder: string;
  readonly pluginPath: string;
}

function testPlugin(entry: TestPlugin): TestPlugin {
  const folder = path.join(CACHE, entry.folder);
  return { ...entry, folder, pluginPath: path.join(folder, entry.pluginPath) };
}

function cpuPlugin(entry: Omit<TestPlugin, "name" | "wheelOptions">): TestPlugin {
  const name = `XLA's CPU plugin, PJRT API ${entry.apiVersion}`;
  return testPlugin({ ...entry, name, wheelOptions: ["--platform", "manylinux_2_27_x86_64"] });
}

/** The oldest and the newest API. */
export const TEST_PLUGINS: readonly TestPlugin[] = [
  cpuPlugin({
    apiVersion: "0.81",
    requirement: "xla-cpu-pjrt==0.0.1",
    wheel: "xla_cpu_pjrt-0.0.1-py3-none-manylinux_2_27_x86_64.whl",
    sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
    folder: "xla-cpu-pjrt-0.0.1",
    pluginPath: "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
  }),
  cpuPlugin({
    apiVersion: "0.115",
    requirement: "lammps-jax-pjrt-cpu==0.11.2",
    wheel: "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
    sha256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
    folder: "lammps-jax-pjrt-cpu-0.11.2",
    pluginPath: "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
  }),
];

/** The plugin of Google's TPUs, under Google Cloud's terms: 137 MB that are fetched only when asked for. */
export const LIBTPU: TestPlugin = testPlugin({
  name: "libtpu 0.0.52",
  apiVersion: "0.117",
  requirement: "libtpu==0.0.52",
  wheel: "libtpu-0.0.52-cp311-cp311-manylinux_2_31_x86_64.whl",
  wheelOptions: ["--platform", "manylinux_2_31_x86_64", "--python-version", "3.11", "--abi", "cp311"],
  sha256: "f5e2e596eaea9357fbb5a6755a7a9007c6ab75bfde4a55191b03eff402971140",
  folder: "libtpu-0.0.52",
  pluginPath: "libtpu/libtpu.so",
});

/** What a test of the plugin would miss here, or undefined if it can run. */
export function whatIsMissing({ pluginPath }: TestPlugin): string | undefined {
  const native = loadPjrtNative();
  if ("whyNot" in native) return "the PJRT binding (node native/build.mts)";
  if (!existsSync(pluginPath)) return "the test plugins (node native/fetch-test-plugins.mts)";
  return undefined;
}
