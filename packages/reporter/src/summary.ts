/** Version of the shape below; a reader accepts this one and no other. */
export const SUMMARY_SCHEMA_VERSION = 1;

export type SummaryPlatform = "cpu" | "cuda" | "tpu" | "sim";
export type ArmFamily = "engine" | "python" | "node";

/** `summary.json`: everything a run of the benchmark found, one file. Its JSON Schema is `summary.schema.json`. */
export interface Summary {
  readonly schemaVersion: typeof SUMMARY_SCHEMA_VERSION;
  readonly platform: SummaryPlatform;
  readonly preset: string;
  /** True iff the dense network ran on the simulated accelerator; every table and chart then says so. */
  readonly simulatedAccelerator: boolean;
  readonly environment: SummaryEnvironment;
  readonly settings: SummarySettings;
  readonly parity: readonly ParityEntry[];
  readonly points: readonly Point[];
  readonly budgets: readonly Budget[];
  /** What became of each arm that was asked for. */
  readonly arms?: readonly ArmOutcome[];
  /** True if the run was stopped before its plan was done. */
  readonly interrupted?: boolean;
  /** The dense network alone: one device a row, all of them in one alternating run. Only on the platform cpu. */
  readonly denseNetwork?: readonly DenseNetworkRow[];
  /** What the reader should know of the run as a whole. */
  readonly warnings?: readonly string[];
}

/** Where the run took place. Fields that are not listed may be added. */
export interface SummaryEnvironment {
  /** ISO 8601, wall clock. */
  readonly startedAt?: string;
  readonly finishedAt?: string;
  readonly cpuModel?: string;
  /** Of those that decide what a kernel and a precision are worth, the ones that the CPU has, apart by spaces. */
  readonly cpuInstructionSets?: string;
  readonly cpuCount?: number;
  readonly memoryBytes?: number;
  readonly kernel?: string;
  readonly node?: string;
  readonly python?: string;
  /** Versions of packages that arms use, by name. */
  readonly packages?: Readonly<Record<string, string>>;
  /** Kernel of the engine's gather, and why it isn't the native one where it is not. */
  readonly gatherKernel?: string;
  readonly gatherWhyNotNative?: string;
  readonly gitCommit?: string;
  /** The PJRT plugin that `PJRT_PLUGIN_PATH` named. */
  readonly pjrtPluginPath?: string;
  /** What was pinned, and how that was checked. */
  readonly pinning?: string;
  /** 1-minute load average before the first and after the last step. */
  readonly loadAverageBefore?: number;
  readonly loadAverageAfter?: number;
  /** Share of the CPU time that the hypervisor took during the run, 0 to 1: of the CPUs of servers and load generator, if they were held to some. */
  readonly stealFraction?: number;
  readonly [key: string]: unknown;
}

/** What was asked for, with defaults filled in. Fields that are not listed may be added. */
export interface SummarySettings {
  /** The command line that repeats the run. */
  readonly command?: string;
  readonly arms?: readonly string[];
  readonly serverCpus?: string;
  readonly clientCpus?: string;
  readonly durationS?: number;
  readonly warmupS?: number;
  readonly repeats?: number;
  readonly concurrencies?: readonly number[];
  readonly requestBatchSizes?: readonly number[];
  readonly connections?: number;
  readonly openLoop?: boolean;
  readonly [key: string]: unknown;
}

/** The largest difference of an arm's scores from the reference forward, over every start of the arm and id type. */
export interface ParityEntry {
  readonly arm: string;
  readonly bReq: number;
  /** null if no scores came to compare. */
  readonly maxAbsDiff: number | null;
  readonly ok: boolean;
  /** Why no scores came, or what was wrong with them besides their values. */
  readonly error?: string;
}

/** One combination of arm, request size and load. Values are medians of `repeats`, unless a field says otherwise. */
export interface Point {
  readonly arm: string;
  /** Examples in one request. */
  readonly bReq: number;
  readonly mode: "closed" | "open";
  /** Closed-loop callers; null in an open loop. */
  readonly concurrency: number | null;
  /** Requests a second that were offered; null in a closed loop. */
  readonly offeredRps: number | null;
  /** Open loop: the offered rate as a share of the arm's own closed-loop peak at this request size, 0 to 1. */
  readonly peakFraction?: number;
  readonly examplesPerS: number;
  /** From the intended send time, which in a closed loop is the actual one. null if no request succeeded. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** The same requests from the actual send time; open loop only. */
  readonly p50FromSendMs?: number | null;
  readonly p99FromSendMs?: number | null;
  /** Open loop: sends that were not made, summed over the repeats, because too many requests were outstanding. */
  readonly dropped?: number;
  /** Open loop: sends made late, summed over the repeats. */
  readonly late?: number;
  /** Errors by name, mostly of a gRPC code, summed over the repeats. */
  readonly errors: Readonly<Record<string, number>>;
  /** CPU time of the arm's whole process tree; null if no example was answered or it could not be read. */
  readonly serverCpuMicrosPerExample: number | null;
  readonly serverPeakRssBytes: number | null;
  readonly serverPeakPssBytes: number | null;
  /** CPU time of the load generator as a share of the CPUs it may use. */
  readonly clientCpuFraction: number | null;
  /** The load generator, not the arm, was the limit in at least half of the repeats: the point wins no comparison. */
  readonly clientBound: boolean;
  /** The accelerator's gauges by name, which ends in the unit (`gpu0UtilizationPercent`); only where there are any. */
  readonly gauges?: Readonly<Record<string, number>>;
  readonly repeats: readonly PointRepeat[];
}

/** One measurement of a point. */
export interface PointRepeat {
  /** From 1. */
  readonly repeat: number;
  readonly examplesPerS: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly errors: Readonly<Record<string, number>>;
  readonly serverCpuMicrosPerExample: number | null;
  readonly serverPeakRssBytes: number | null;
  readonly serverPeakPssBytes: number | null;
  readonly clientCpuFraction: number | null;
  readonly clientBound: boolean;
  readonly requests?: number;
  readonly examples?: number;
  readonly p90Ms?: number | null;
  readonly p999Ms?: number | null;
  readonly maxMs?: number | null;
  /** 99th percentile of how late requests were sent. */
  readonly sendLagP99Ms?: number | null;
  /** Means over the measured window, by name. */
  readonly gauges?: Readonly<Record<string, number>>;
  /** Open loop, from the actual send time. */
  readonly p50FromSendMs?: number | null;
  readonly p99FromSendMs?: number | null;
  /** Open loop: sends not made, and sends made late. */
  readonly dropped?: number;
  readonly late?: number;
}

/** The best throughput of each family within a latency budget. */
export interface Budget {
  readonly bReq: number;
  /** Bound on p99. */
  readonly budgetMs: number;
  /** null if no point of the family is within the budget. */
  readonly engine: BudgetWinner | null;
  readonly python: BudgetWinner | null;
  /** engine / python; null without both. */
  readonly ratio: number | null;
}

export interface BudgetWinner {
  readonly arm: string;
  readonly examplesPerS: number;
}

/** What one device did with batches of the dense network, without a server around it. */
export interface DenseNetworkRow {
  /** Name of the device: `onnxruntime 1.30.0 (cpu, 1 thread)`. */
  readonly device: string;
  readonly precision: "float32" | "bfloat16" | "int8";
  /** Examples of a batch. */
  readonly batch: number;
  /** That the device was given. */
  readonly numThreads: number;
  /** By the median of `callMicros`; null if nothing was measured. */
  readonly examplesPerS: number | null;
  /** Largest difference of a score from the reference forward; null if nothing was measured. */
  readonly maxAbsError: number | null;
  /** Time of a call in each round, µs. */
  readonly callMicros: readonly number[];
  /** Why nothing was measured. */
  readonly whyNot?: string;
}

export interface ArmOutcome {
  readonly arm: string;
  readonly title: string;
  readonly family: ArmFamily;
  readonly status: "ok" | "failed" | "skipped" | "unfinished";
  /** Why, unless `status` is ok. */
  readonly reason?: string;
  /** Last lines of the arm's log, where it failed. */
  readonly logTail?: readonly string[];
  /** What the reader should know although the arm was measured. */
  readonly warnings?: readonly string[];
}
