import { rowLength } from "./backend.ts";
import type { ExecuteOptions, NamedTensors, SharedFloat32Array, TensorSpec } from "./device.ts";
import { AcceleratorError } from "./errors.ts";

/** A call that was found right. */
export interface CheckedCall {
  readonly bucketIndex: number;
  readonly rows: number;
  /** Inputs, then outputs, in the device's order. */
  readonly tensors: readonly SharedFloat32Array[];
}

/** Checks calls against what a device expects. */
export class CallChecker {
  readonly #bucketIndexes: Map<number, number>;
  readonly #inputs: TensorChecker;
  readonly #outputs: TensorChecker;

  constructor(buckets: readonly number[], inputs: readonly TensorSpec[], outputs: readonly TensorSpec[]) {
    this.#bucketIndexes = new Map(buckets.map((bucket, index) => [bucket, index]));
    this.#inputs = new TensorChecker("input", inputs);
    this.#outputs = new TensorChecker("output", outputs);
  }

  /** Ascending. */
  get buckets(): readonly number[] {
    return [...this.#bucketIndexes.keys()].sort((a, b) => a - b);
  }

  /** Its index is the number of those before. */
  addBucket(bucket: number): void {
    this.#bucketIndexes.set(bucket, this.#bucketIndexes.size);
  }

  /** Throws `unknown_bucket`, `shape_mismatch` or `cancelled`. */
  check(bucket: number, inputs: NamedTensors, outputs: NamedTensors, options: ExecuteOptions | undefined): CheckedCall {
    const bucketIndex = this.#bucketIndexes.get(bucket);
    if (bucketIndex === undefined) {
      throw new AcceleratorError("unknown_bucket", `no bucket ${bucket}: the device has ${this.buckets.join(", ")}`);
    }
    const rows = options?.rows ?? bucket;
    if (!(Number.isInteger(rows) && rows >= 0 && rows <= bucket)) {
      throw new AcceleratorError(
        "shape_mismatch",
        `rows must be an integer from 0 to the bucket, ${bucket}, got ${rows}`,
      );
    }
    const tensors: SharedFloat32Array[] = [];
    this.#inputs.collect(inputs, bucket, tensors);
    this.#outputs.collect(outputs, bucket, tensors);
    if (options?.signal?.aborted) throw cancelled(options.signal);
    return { bucketIndex, rows, tensors };
  }
}

export function cancelled(signal: AbortSignal): AcceleratorError {
  return new AcceleratorError("cancelled", "the call was cancelled before the device began it", {
    cause: signal.reason,
  });
}

export function queueFull(maxQueuedCalls: number): AcceleratorError {
  return new AcceleratorError(
    "queue_full",
    `${maxQueuedCalls} calls wait or run, and maxQueuedCalls is no more; try again when one has ended`,
  );
}

/** One side of a call: puts its tensors in the device's order. */
class TensorChecker {
  readonly #side: "input" | "output";
  readonly #specs: readonly { readonly spec: TensorSpec; readonly rowLength: number }[];

  constructor(side: "input" | "output", specs: readonly TensorSpec[]) {
    this.#side = side;
    this.#specs = specs.map((spec) => ({ spec, rowLength: rowLength(spec) }));
  }

  /** Appends the tensors to `into`. Throws `shape_mismatch`. */
  collect(given: NamedTensors, bucket: number, into: SharedFloat32Array[]): void {
    for (const { spec, rowLength: length } of this.#specs) {
      const tensor: unknown = given[spec.name];
      if (!(tensor instanceof Float32Array) || !(tensor.buffer instanceof SharedArrayBuffer)) {
        throw this.#mismatch(spec, bucket, `a Float32Array over a SharedArrayBuffer, got ${describe(tensor, given)}`);
      }
      if (tensor.length < bucket * length) {
        throw this.#mismatch(spec, bucket, `at least ${bucket * length} numbers, got ${tensor.length}`);
      }
      into.push(tensor as SharedFloat32Array);
    }
    let count = 0;
    for (const _ in given) count += 1;
    if (count !== this.#specs.length) {
      const names = this.#specs.map(({ spec }) => spec.name);
      const unknown = Object.keys(given).filter((name) => !names.includes(name));
      throw new AcceleratorError(
        "shape_mismatch",
        `the device has no ${this.#side} ${unknown.map((name) => `"${name}"`).join(", ")}; it has ${names.join(", ")}`,
      );
    }
  }

  #mismatch(spec: TensorSpec, bucket: number, expected: string): AcceleratorError {
    const shape = `[${[bucket, ...spec.width].join(", ")}]`;
    return new AcceleratorError("shape_mismatch", `${this.#side} "${spec.name}" ${shape} must be ${expected}`);
  }
}

function describe(tensor: unknown, given: NamedTensors): string {
  if (tensor === undefined) return `nothing (given: ${Object.keys(given).join(", ") || "no tensors"})`;
  if (tensor instanceof Float32Array) return "a Float32Array over an ArrayBuffer";
  if (ArrayBuffer.isView(tensor)) return `a ${tensor.constructor.name}`;
  return typeof tensor;
}
