import path from "node:path";
import type {
  Arm,
  ArmAvailability,
  ArmCommand,
  ArmLaunchOptions,
  ArmPrepareContext,
  Platform,
} from "@dlrm/arm-contract";
import { ensurePythonEnvironment, pythonEnvironment, type PythonExtra, pythonSourceDir } from "./python-environment.ts";
import { findPython } from "./python-interpreter.ts";

/** What the arm's server is started with when the bench leaves `numThreads` at 0. */
const DEFAULT_NUM_THREADS = 8;

/** Packages that a platform needs beside those of every platform. */
export function platformExtras(platform: Platform): readonly PythonExtra[] {
  return platform === "cuda" || platform === "tpu" ? [platform] : [];
}

/** One CPython process: `grpc.server` with a pool of threads, NumPy for the embedding lookup, JAX for the dense network. */
export const arm: Arm = {
  name: "py",
  title: "Python: one process, gRPC thread pool, NumPy, JAX",
  family: "python",
  platforms: ["cpu", "cuda", "tpu", "sim"],

  availability(platform: Platform): Promise<ArmAvailability> {
    const search = findPython();
    if (!search.found) {
      return Promise.resolve({ available: false, missing: search.missing });
    }
    if (platformExtras(platform).length > 0 && process.platform !== "linux") {
      return Promise.resolve({ available: false, missing: `Linux, which JAX needs for ${platform}` });
    }
    return Promise.resolve({ available: true });
  },

  async prepare({ platform, cacheDir, report, signal }: ArmPrepareContext): Promise<void> {
    await ensurePythonEnvironment({ cacheDir, extras: platformExtras(platform), report, signal });
  },

  command(options: ArmLaunchOptions): ArmCommand {
    const { python } = pythonEnvironment({ cacheDir: options.cacheDir, extras: platformExtras(options.platform) });
    return {
      file: python,
      args: [
        ...["-m", "dlrm_py.server"],
        ...["--bundle", options.bundleDir],
        ...["--host", options.host],
        ...["--port", String(options.port)],
        ...["--platform", options.platform],
        ...["--num-threads", String(options.numThreads === 0 ? DEFAULT_NUM_THREADS : options.numThreads)],
        ...["--max-batch-size", String(options.maxBatchSize)],
        ...["--compilation-cache-dir", path.join(path.resolve(options.cacheDir), "jax-compilations")],
      ],
      env: {
        PYTHONPATH: pythonSourceDir,
        PYTHONNOUSERSITE: "1",
        // Sources may lie where nothing may be written, and a run must leave nothing there.
        PYTHONDONTWRITEBYTECODE: "1",
        // Lines of progress appear when they are printed.
        PYTHONUNBUFFERED: "1",
      },
    };
  },
};
