import type { DeviceMemory, PrecisionReport, SharedFloat32Array, TensorSpec } from "./device.ts";

/**
 * What a device's thread runs. `Tensor` is the backend's own form of a tensor, made once for each place in memory and
 * bucket, and kept.
 */
export interface Backend<Tensor> {
  readonly name: string;
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly precision: PrecisionReport;
  readonly memory: DeviceMemory;
  /** Inputs read in place, and inputs copied, by all runs; absent if the backend can't tell. */
  readonly inputTransfers?: InputTransferCounts;
  /** Makes another bucket ready to run. `program`: see `Device.compile`. Throws an `AcceleratorError`, and then is as it was. */
  addBucket(bucket: number, program: string | Uint8Array | undefined): void;
  /** `view` is exactly the `bucket` rows of one input or output. */
  wrap(spec: TensorSpec, bucket: number, view: SharedFloat32Array): Tensor;
  /** Runs one batch; returning no promise saves a turn of the loop. Tensors stand in the order of `inputs` and `outputs`. */
  run(bucket: number, inputs: readonly Tensor[], outputs: readonly Tensor[]): void | Promise<void>;
  /** Prepares a bucket: `run`, or as much of it as makes the next run as fast as any. */
  warm(bucket: number, inputs: readonly Tensor[], outputs: readonly Tensor[]): void | Promise<void>;
  /** For devices that take the next batch while one runs; without it, each waits for the one before. */
  readonly pipeline?: Pipeline<Tensor>;
  close(): Promise<void>;
}

/** `run` in two halves. Calls that are begun are ended in the same order, and their memory is the device's in between. */
export interface Pipeline<Tensor> {
  /** Most calls begun and not ended. */
  readonly depth: number;
  /** Throws what `run` would; then the call has not begun. */
  begin(bucket: number, inputs: readonly Tensor[], outputs: readonly Tensor[]): void;
  /** Blocks until the oldest call, which is of this bucket, is done. Throws what `run` would. */
  end(bucket: number): void;
}

/** Two counts in memory that both threads see: inputs read in place, and inputs copied. */
export type InputTransferCounts = BigInt64Array<SharedArrayBuffer>;

/** Numbers in one row of a tensor. */
export function rowLength(spec: TensorSpec): number {
  return spec.width.reduce((product, dimension) => product * dimension, 1);
}
