import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findPjrtPlugin } from "./find-plugin.ts";

let folder: string;
let packages: string;
let python: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "dlrm-find-plugin-"));
  packages = path.join(folder, "site-packages");
  python = path.join(folder, "python");
  // Stands for an interpreter: says where its packages are.
  await writeFile(python, `#!/bin/sh\necho '["${packages}"]'\n`);
  await chmod(python, 0o755);
});
afterAll(() => rm(folder, { recursive: true }));

async function install(...names: string[]): Promise<string> {
  const file = path.join(packages, ...names);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, "");
  return file;
}

test("PJRT_PLUGIN_PATH comes before everything, then libtpu, then the newest CUDA plugin", async () => {
  const env = { DLRM_PYTHON: python };
  await expect(findPjrtPlugin({ env })).rejects.toMatchObject({
    code: "plugin_not_found",
    message: `no PJRT plugin: PJRT_PLUGIN_PATH is not set, and neither libtpu nor a jax-cuda plugin is among the packages of ${python} (${packages})`,
  });
  const source = `the packages of ${python}`;
  await install("jax_plugins", "xla_cuda", "xla_cuda_plugin.so");
  const older = await install("jax_plugins", "xla_cuda9", "xla_cuda_plugin.so");
  expect(await findPjrtPlugin({ env })).toEqual({ pluginPath: older, source });
  const newer = await install("jax_plugins", "xla_cuda13", "xla_cuda_plugin.so");
  expect(await findPjrtPlugin({ env: {}, python })).toEqual({ pluginPath: newer, source });
  const libtpu = await install("libtpu", "libtpu.so");
  expect(await findPjrtPlugin({ env })).toEqual({ pluginPath: libtpu, source });
  expect(await findPjrtPlugin({ env: { ...env, PJRT_PLUGIN_PATH: "/a/plugin.so" } })).toEqual({
    pluginPath: "/a/plugin.so",
    source: "PJRT_PLUGIN_PATH",
  });
});

test("an interpreter that does not run is told of", async () => {
  const missing = path.join(folder, "missing");
  await expect(findPjrtPlugin({ env: {}, python: missing })).rejects.toMatchObject({
    code: "plugin_not_found",
    message: expect.stringContaining(`PJRT_PLUGIN_PATH is not set, and ${missing} does not run`) as unknown,
  });
});
