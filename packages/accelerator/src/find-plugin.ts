import { execFile } from "node:child_process";
import { access, readdir } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { AcceleratorError } from "./errors.ts";

const PYTHON_TIMEOUT_MS = 10_000;

export interface FindPluginOptions {
  /** Default `process.env`. */
  readonly env?: NodeJS.ProcessEnv;
  /** Interpreter whose packages are looked through. Default: `DLRM_PYTHON`, that of `VIRTUAL_ENV`, or else `python3`. */
  readonly python?: string;
}

export interface FoundPlugin {
  readonly pluginPath: string;
  /** What named it, for people. */
  readonly source: string;
}

/**
 * A PJRT plugin of this machine: `PJRT_PLUGIN_PATH` if that is set, or else, in the packages of a Python environment, libtpu
 * or JAX's CUDA plugin, in this order. Rejects with `plugin_not_found` and where it looked.
 */
export async function findPjrtPlugin(options: FindPluginOptions = {}): Promise<FoundPlugin> {
  const { env = process.env } = options;
  const named = env["PJRT_PLUGIN_PATH"];
  if (named) return { pluginPath: named, source: "PJRT_PLUGIN_PATH" };
  const python = options.python ?? interpreterOf(env);
  let folders: readonly string[];
  try {
    folders = await packageFolders(python, env);
  } catch (error) {
    throw notFound(`${python} does not run (${(error as Error).message.split("\n")[0]})`, error);
  }
  for (const folder of folders) {
    const pluginPath = await firstPlugin(folder);
    if (pluginPath !== undefined) return { pluginPath, source: `the packages of ${python}` };
  }
  throw notFound(`neither libtpu nor a jax-cuda plugin is among the packages of ${python} (${folders.join(", ")})`);
}

function notFound(found: string, cause?: unknown): AcceleratorError {
  const message = `no PJRT plugin: PJRT_PLUGIN_PATH is not set, and ${found}`;
  return new AcceleratorError("plugin_not_found", message, cause === undefined ? undefined : { cause });
}

function interpreterOf(env: NodeJS.ProcessEnv): string {
  if (env["DLRM_PYTHON"]) return env["DLRM_PYTHON"];
  return env["VIRTUAL_ENV"] ? path.join(env["VIRTUAL_ENV"], "bin", "python") : "python3";
}

async function packageFolders(python: string, env: NodeJS.ProcessEnv): Promise<readonly string[]> {
  // The paths as Python itself imports from, without those of the folder that this runs in.
  const program = "import json, sys; print(json.dumps([p for p in sys.path if p.endswith('-packages')]))";
  const { stdout } = await promisify(execFile)(python, ["-c", program], { timeout: PYTHON_TIMEOUT_MS, env });
  return JSON.parse(stdout) as string[];
}

async function firstPlugin(folder: string): Promise<string | undefined> {
  const cuda = path.join(folder, "jax_plugins");
  const versions = (await readdir(cuda).catch((): string[] => []))
    .filter((name) => /^xla_cuda\d+$/.test(name))
    // The newest first.
    .sort((a, b) => Number(b.slice("xla_cuda".length)) - Number(a.slice("xla_cuda".length)));
  const candidates = [
    path.join(folder, "libtpu", "libtpu.so"),
    ...versions.map((name) => path.join(cuda, name, "xla_cuda_plugin.so")),
  ];
  for (const candidate of candidates) {
    const isThere = await access(candidate).then(
      () => true,
      () => false,
    );
    if (isThere) return candidate;
  }
  return undefined;
}
