import type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, Platform } from "@dlrm/arm-contract";
import { deviceAvailability, platformDevice, serveCommandLine } from "@dlrm/server";

/** The engine with batching off, as the reference's `xse-nobatch`. */
export const arm: Arm = {
  name: "engine-nobatch",
  title: "Engine: no batching",
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
      batching: "off",
      maxBatchSize: options.maxBatchSize,
    });
    return { file, args, env: {} };
  },
};
