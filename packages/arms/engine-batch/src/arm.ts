import type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, Platform } from "@dlrm/arm-contract";
import { deviceAvailability, type DeviceKind, serveCommandLine } from "@dlrm/server";

/** What runs the dense network on a platform; none yet for the others. */
const DEVICES: Partial<Record<Platform, DeviceKind>> = { cpu: "onnxruntime", sim: "simulated" };

/** The engine with a batching window of 1 ms, as the reference's `xse-batch`. */
export const arm: Arm = {
  name: "engine-batch",
  title: "Engine: batches of up to 1 ms and 4096 examples",
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
    if (device === undefined) throw new Error(`engine-batch has no device for the platform ${options.platform}`);
    const { file, args } = serveCommandLine({
      bundle: options.bundleDir,
      host: options.host,
      port: options.port,
      device,
      deviceThreads: options.numThreads,
      batching: "window",
      batchTimeoutMicros: 1000,
      maxBatchSize: options.maxBatchSize,
    });
    return { file, args, env: {} };
  },
};
