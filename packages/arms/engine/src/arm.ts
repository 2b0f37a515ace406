import type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, Platform } from "@dlrm/arm-contract";
import { deviceAvailability, type DeviceKind, serveCommandLine } from "@dlrm/server";

/** What runs the dense network on a platform; none yet for the others. */
const DEVICES: Partial<Record<Platform, DeviceKind>> = { cpu: "onnxruntime", sim: "simulated" };

/** The engine with its default, adaptive batching. */
export const arm: Arm = {
  name: "engine",
  title: "Engine: adaptive batching",
  family: "engine",
  platforms: ["cpu", "cuda", "tpu", "sim"],

  async availability(platform: Platform): Promise<ArmAvailability> {
    const device = DEVICES[platform];
    if (device === undefined)
      return { available: false, missing: `a device of the engine for the platform ${platform}` };
    return await deviceAvailability(device);
  },

  async prepare(): Promise<void> {
    // The server is there, and its bundle is the bench's to make.
  },

  command(options: ArmLaunchOptions): ArmCommand {
    const device = DEVICES[options.platform];
    if (device === undefined) throw new Error(`engine has no device for the platform ${options.platform}`);
    const { file, args } = serveCommandLine({
      bundle: options.bundleDir,
      host: options.host,
      port: options.port,
      device,
      deviceThreads: options.numThreads,
      batching: "adaptive",
      maxBatchSize: options.maxBatchSize,
    });
    return { file, args, env: {} };
  },
};
