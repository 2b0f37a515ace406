import type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, Platform } from "@dlrm/arm-contract";
import { deviceAvailability, platformDevice, serveCommandLine } from "@dlrm/server";

/** The engine with its default, adaptive batching. */
export const arm: Arm = {
  name: "engine",
  title: "Engine: adaptive batching",
  family: "engine",
  platforms: ["cpu", "cuda", "tpu", "sim"],

  async availability(platform: Platform, device?: string): Promise<ArmAvailability> {
    return await deviceAvailability(platformDevice(platform, device));
  },

  async prepare(): Promise<void> {
    // The server is there, and its bundle is the bench's to make.
  },

  command(options: ArmLaunchOptions): ArmCommand {
    const { file, args } = serveCommandLine({
      bundle: options.bundleDir,
      host: options.host,
      port: options.port,
      device: platformDevice(options.platform, options.device),
      deviceThreads: options.numThreads,
      batching: "adaptive",
      maxBatchSize: options.maxBatchSize,
    });
    return { file, args, env: {} };
  },
};
