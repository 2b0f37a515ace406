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

/** What tells one arm of the Python server from another. */
export interface PythonArmOptions {
  readonly name: string;
  readonly title: string;
  /** Threads of a process that handle requests. */
  readonly handlerThreads: number;
  /** Several processes share the port. This needs Linux. Default: false, one process. */
  readonly multiProcess?: boolean;
  /** Requests wait up to so long for others, and run together. Default: each runs by itself. */
  readonly batchTimeoutMicros?: number;
}

/** An arm that is the Python server of this package, started with some options. */
export function pythonArm(arm: PythonArmOptions): Arm {
  return {
    name: arm.name,
    title: arm.title,
    family: "python",
    platforms: ["cpu", "cuda", "tpu", "sim"],

    availability(platform: Platform): Promise<ArmAvailability> {
      const search = findPython();
      if (!search.found) {
        return Promise.resolve({ available: false, missing: search.missing });
      }
      if (process.platform !== "linux" && platformExtras(platform).length > 0) {
        return Promise.resolve({ available: false, missing: `Linux, which JAX needs for ${platform}` });
      }
      if (process.platform !== "linux" && arm.multiProcess === true) {
        return Promise.resolve({ available: false, missing: "Linux, for its eventfd and memory shared by processes" });
      }
      return Promise.resolve({ available: true });
    },

    async prepare({ platform, cacheDir, report, signal }: ArmPrepareContext): Promise<void> {
      await ensurePythonEnvironment({ cacheDir, extras: platformExtras(platform), report, signal });
    },

    command(options: ArmLaunchOptions): ArmCommand {
      const { python } = pythonEnvironment({ cacheDir: options.cacheDir, extras: platformExtras(options.platform) });
      const { batchTimeoutMicros } = arm;
      return {
        file: python,
        args: [
          ...["-m", "dlrm_py.server"],
          ...["--bundle", options.bundleDir],
          ...["--host", options.host],
          ...["--port", String(options.port)],
          ...["--platform", options.platform],
          ...["--num-threads", String(arm.handlerThreads)],
          ...["--device-threads", String(options.numThreads)],
          ...(arm.multiProcess === true ? ["--num-processes", String(Math.max(options.numProcesses, 1))] : []),
          ...(batchTimeoutMicros === undefined
            ? []
            : ["--batching", "window", "--batch-timeout-micros", String(batchTimeoutMicros)]),
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
}

/** Packages that a platform needs beside those of every platform. */
export function platformExtras(platform: Platform): readonly PythonExtra[] {
  return platform === "cuda" || platform === "tpu" ? [platform] : [];
}
