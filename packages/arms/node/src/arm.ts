import { accessSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, Platform } from "@dlrm/arm-contract";

const runsFromSource = import.meta.url.endsWith(".ts");
const entry = fileURLToPath(new URL(runsFromSource ? "./serve-process.ts" : "./serve-process.js", import.meta.url));

/** One Node process: grpc-js, a plain JavaScript gather, onnxruntime-node; no batching. */
export const arm: Arm = {
  name: "node",
  title: "Node: one process, grpc-js, plain JavaScript gather, onnxruntime-node",
  family: "node",
  platforms: ["cpu", "cuda", "tpu", "sim"],

  availability(platform: Platform): Promise<ArmAvailability> {
    const missing = whatIsMissing(platform);
    return Promise.resolve(missing === undefined ? { available: true } : { available: false, missing });
  },

  async prepare(): Promise<void> {
    // The server is there, and its bundle is the bench's to make.
  },

  command(options: ArmLaunchOptions): ArmCommand {
    return {
      file: process.execPath,
      args: [
        // Sources find the other packages' sources by this condition; built code does not need it.
        ...(runsFromSource ? ["--conditions=@dlrm/source"] : []),
        entry,
        ...["--bundle", options.bundleDir],
        ...["--host", options.host],
        ...["--port", String(options.port)],
        ...["--platform", options.platform],
        ...["--num-threads", String(options.numThreads)],
        ...["--max-batch-size", String(options.maxBatchSize)],
      ],
      env: {},
    };
  },
};

/** Where the driver of an NVIDIA GPU shows itself. */
const NVIDIA_DRIVER = "/proc/driver/nvidia/version";

function whatIsMissing(platform: Platform): string | undefined {
  if (platform === "sim") return undefined;
  if (platform === "tpu") return "an execution provider of onnxruntime-node for TPUs, which there is none of";
  try {
    createRequire(import.meta.url).resolve("onnxruntime-node");
  } catch {
    return "the package onnxruntime-node: npm install onnxruntime-node";
  }
  if (platform !== "cuda") return undefined;
  if (process.platform !== "linux" || process.arch !== "x64") {
    return `CUDA in onnxruntime-node, which it has on linux-x64 only, not on ${process.platform}-${process.arch}`;
  }
  try {
    accessSync(NVIDIA_DRIVER);
    return undefined;
  } catch {
    return `an NVIDIA GPU with its driver (${NVIDIA_DRIVER} is not there)`;
  }
}
