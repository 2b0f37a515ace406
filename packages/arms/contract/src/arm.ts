/** Where the dense network of a run executes; `sim` is the simulated accelerator. */
export const PLATFORMS = ["cpu", "cuda", "tpu", "sim"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** What the bench tells an arm to serve. */
export interface ArmLaunchOptions {
  /** Absolute path of the model bundle. */
  readonly bundleDir: string;
  readonly host: string;
  readonly port: number;
  readonly platform: Platform;
  /**
   * What runs the dense network in arms of family `engine`, by the names of `dlrm-serve --device`: in place of the platform's
   * own, so that a CPU plugin can stand in for a TPU's. Others ignore it.
   */
  readonly device?: string | undefined;
  /** Threads of the dense network on the CPU, in all arms; 0 is one for each CPU that the arm may use. */
  readonly numThreads: number;
  /** Server processes of a multi-process arm; ignored by the others. */
  readonly numProcesses: number;
  /** Largest batch of the device. */
  readonly maxBatchSize: number;
  /** Directory for what the arm prepares once and keeps (a virtual environment, a compilation cache). */
  readonly cacheDir: string;
}

/** A process to start, without a shell. */
export interface ArmCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** Added to the environment of the bench. */
  readonly env: Readonly<Record<string, string>>;
}

export interface ArmPrepareContext {
  readonly platform: Platform;
  readonly cacheDir: string;
  /** One line of progress for the person who waits. */
  readonly report: (line: string) => void;
  readonly signal: AbortSignal;
}

export type ArmAvailability = { readonly available: true } | { readonly available: false; readonly missing: string };

/**
 * One server under test. The process of `command` must serve `dlrm.serving.v1.PredictionService` and
 * `grpc.health.v1.Health` over gRPC (h2c) on `host:port`, answer SERVING once it can predict, and end with code 0 within
 * its drain time after SIGTERM.
 */
export interface Arm {
  readonly name: string;
  /** What the arm stands for, in a few words, for tables and charts. */
  readonly title: string;
  /** Comparisons are between the best arm of family `engine` and the best of family `python`. */
  readonly family: "engine" | "python" | "node";
  readonly platforms: readonly Platform[];
  /** Whether this machine can run the arm, and if not, what is missing. `device`: see `ArmLaunchOptions`. */
  availability(platform: Platform, device?: string): Promise<ArmAvailability>;
  /** Makes everything `command` needs; idempotent and quick when there is nothing to do. */
  prepare(context: ArmPrepareContext): Promise<void>;
  command(options: ArmLaunchOptions): ArmCommand;
}
