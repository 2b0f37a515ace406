import type { AcceleratorError } from "./errors.ts";

/** A float32 tensor in shared memory, owned by the caller: the device's thread reads and writes it in place. */
export type SharedFloat32Array = Float32Array<SharedArrayBuffer>;

/** Tensors by name. */
export type NamedTensors = Readonly<Record<string, SharedFloat32Array>>;

/** A float32 input or output of a device: its name, and its dimensions after the batch (`[]` for one number an example). */
export interface TensorSpec {
  readonly name: string;
  readonly width: readonly number[];
}

export interface ExecuteOptions {
  /** Real examples among the bucket's; the rest is padding. Used for `stats` only. Default: the bucket. */
  readonly rows?: number;
  /**
   * Takes the call back as long as the device has not begun it: it then rejects with `cancelled` and its buffers are
   * the caller's at once. A call that runs already is not stopped and settles as if nothing had happened.
   */
  readonly signal?: AbortSignal;
}

/** What happened on a device since it was opened. Warm-up is not in it. */
export interface DeviceStats {
  /** Calls that ended well. */
  readonly executions: number;
  /** Calls that rejected with `run_failed`. */
  readonly failures: number;
  /** Calls that were taken back before the device began them. */
  readonly cancellations: number;
  /** Real examples of the calls that ended well. */
  readonly rows: number;
  /** Padding examples of the same calls. */
  readonly paddedRows: number;
  /** Time the device was occupied by calls, measured in its thread, in microseconds. */
  readonly busyMicros: number;
  /** Calls accepted and not ended. */
  readonly inFlight: number;
  /**
   * What became of the inputs of all calls: read by the device where they lie, or copied to it. Only a `pjrt` device can tell.
   * A device with memory of its own copies all; XLA's CPU plugin those that don't begin at a multiple of 64 bytes.
   */
  readonly inputTransfers?: InputTransfers;
  /** The same by bucket, for buckets that have run. */
  readonly byBucket: readonly BucketStats[];
}

export interface InputTransfers {
  readonly inPlace: number;
  readonly copied: number;
}

export interface BucketStats {
  readonly bucket: number;
  readonly executions: number;
  readonly rows: number;
  readonly busyMicros: number;
}

/** Which buckets ran once before the device was ready. The others are as right, but their first call is slower. */
export interface WarmUpReport {
  readonly warmed: readonly number[];
  /** Buckets left out because they would have overrun `warmUpBudgetMs`. */
  readonly skipped: readonly number[];
  readonly elapsedMs: number;
}

/** What the device computes in, and what that costs in exactness. */
export interface PrecisionReport {
  readonly name: "float32" | "bfloat16" | "int8";
  /** Weight matrices that were made int8. */
  readonly quantizedWeights: number;
  /**
   * Differences of the outputs to those of the same model in float32, on one batch of `rows` examples whose inputs are uniform
   * in ±0.5. Your own inputs may differ: compare with them before you serve. Absent for float32.
   */
  readonly error?: { readonly maxAbs: number; readonly meanAbs: number; readonly rows: number };
}

/** The memory a device reads and writes when it runs. */
export interface DeviceMemory {
  /** `host`: the caller's, where the backend can read it in place. `device`: the device's own; every batch is transferred. */
  readonly kind: "host" | "device";
  /** Bytes of the weights that the device keeps; absent if the backend can't tell. */
  readonly weightBytes?: number;
  /** Bytes in use when the device was opened, weights and programs included, and all it has; absent likewise. */
  readonly usedBytes?: number;
  readonly limitBytes?: number;
}

/** Progress of `openDevice`. `done` of `total` steps are behind; a step is loading the model, or compiling or warming up a bucket. */
export interface OpenProgress {
  readonly phase: "load" | "compile" | "warm-up";
  /** The bucket that was compiled or warmed up last; absent while loading. */
  readonly bucket?: number;
  readonly done: number;
  readonly total: number;
}

/** Runs batches, one after the other, off the caller's thread. */
export interface Device {
  readonly kind: "onnxruntime" | "pjrt" | "simulated" | "reference";
  /** For people: what runs, on what. */
  readonly name: string;
  /** `cpu`, `cuda`, `coreml`, … : the execution provider, or the plugin's platform (`tpu`); `sim` for a simulated accelerator. */
  readonly platform: string;
  /** Batch sizes the device runs, ascending; `compile` adds to them. */
  readonly buckets: readonly number[];
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly warmUp: WarmUpReport;
  readonly precision: PrecisionReport;
  readonly memory: DeviceMemory;
  /** Batches the device works on at one time: more than 1 where the next one's inputs go to it while one runs. */
  readonly maxInFlight: number;
  readonly stats: DeviceStats;
  /** Resolves, with what its calls reject with, if the device is lost for good. A device that is closed never is. */
  readonly lost: Promise<AcceleratorError>;

  /**
   * Adds a bucket, and runs it once on zeros, while the device goes on; calls wait meanwhile. `program` is MLIR for a `pjrt` device, as
   * `PjrtSpec.program` gives it, and undefined for others, whose model runs any batch.
   *
   * Rejects with an `AcceleratorError`; the device is then as it was: `invalid_spec` for a bucket that is none or there already,
   * or for what opening a device with this bucket would reject with.
   */
  compile(program: string | Uint8Array | undefined, bucket: number): Promise<void>;

  /**
   * Runs one batch. Each tensor holds at least `bucket` × width numbers, row-major; what is beyond is neither read nor
   * written. From the call until the promise settles the tensors belong to the device: the inputs must not be written and
   * the outputs not read. Afterwards they are the caller's again and can be reused, which costs nothing; a
   * `SharedArrayBuffer` seen for the first time costs one message, and one that was dropped is freed late: make few.
   *
   * Calls run in the order they were made. Further calls may be made while one runs: the device begins the next without
   * waiting for the caller's event loop, which is never blocked.
   *
   * Rejects with an `AcceleratorError`. After `device_lost` and `device_wedged` the buffers may still be written by the
   * thread that was given up: don't reuse them.
   */
  execute(bucket: number, inputs: NamedTensors, outputs: NamedTensors, options?: ExecuteOptions): Promise<void>;

  /**
   * Settles the calls that have ended by now; without it they settle in the next turn of the caller's event loop. For callers with long
   * turns, so that the next batch and the answers need not wait for the end of one. Costs the read of a counter. Does not pay where
   * device and caller share a CPU: the device then computes before the caller has read what it could.
   */
  settleEnded(): void;

  /** Lets accepted calls end, refuses new ones, frees everything. Idempotent; never rejects. */
  close(): Promise<void>;
}
