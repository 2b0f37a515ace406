import type { Arm, ArmAvailability, ArmCommand, ArmLaunchOptions, Platform } from "@dlrm/arm-contract";
import { deviceAvailability, platformDevice, serveCommandLine, type ServeCommandOptions } from "@dlrm/server";

/** What tells one arm of the engine from another. */
export interface EngineArmOptions extends Pick<ServeCommandOptions, "batching" | "batchTimeoutMicros"> {
  readonly name: string;
  readonly title: string;
}

/** An arm that is `dlrm-serve`, started with some batching. */
export function engineArm({ name, title, batching, batchTimeoutMicros }: EngineArmOptions): Arm {
  return {
    name,
    title,
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
        batching,
        batchTimeoutMicros,
        maxBatchSize: options.maxBatchSize,
      });
      return { file, args, env: {} };
    },
  };
}
