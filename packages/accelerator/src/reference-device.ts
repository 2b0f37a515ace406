import { performance } from "node:perf_hooks";
import { rowLength } from "./backend.ts";
import { CallChecker, cancelled, queueFull } from "./call-checker.ts";
import type {
  Device,
  DeviceMemory,
  DeviceStats,
  ExecuteOptions,
  NamedTensors,
  PrecisionReport,
  SharedFloat32Array,
  TensorSpec,
  WarmUpReport,
} from "./device.ts";
import type { ReferenceSpec } from "./device-spec.ts";
import { AcceleratorError } from "./errors.ts";
import { checkAddedBucket } from "./spec-checks.ts";
import { StatsCounter } from "./stats-counter.ts";

/** See `ReferenceSpec`. Keeps every promise of `Device` but one: it runs on the caller's thread. */
export class ReferenceDevice implements Device {
  readonly kind = "reference";
  readonly name = "reference function";
  readonly platform = "cpu";
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly warmUp: WarmUpReport;
  readonly precision: PrecisionReport = { name: "float32", quantizedWeights: 0 };
  readonly memory: DeviceMemory = { kind: "host" };
  readonly maxInFlight = 1;
  /** It has no thread to lose. */
  readonly lost: Promise<never> = new Promise(() => {});
  readonly #spec: Required<ReferenceSpec>;
  readonly #checker: CallChecker;
  readonly #counter: StatsCounter;
  #last: Promise<void> = Promise.resolve();
  #inFlight = 0;
  #closed = false;

  constructor(spec: Required<ReferenceSpec>) {
    this.#spec = spec;
    this.inputs = spec.inputs;
    this.outputs = spec.outputs;
    this.warmUp = { warmed: [], skipped: spec.buckets, elapsedMs: 0 };
    this.#checker = new CallChecker(spec.buckets, spec.inputs, spec.outputs);
    this.#counter = new StatsCounter(spec.buckets);
  }

  get buckets(): readonly number[] {
    return this.#checker.buckets;
  }

  async compile(program: string | Uint8Array | undefined, bucket: number): Promise<void> {
    if (this.#closed) throw new AcceleratorError("closed", `${this.name} is closed`);
    checkAddedBucket(bucket, this.buckets, program, false);
    this.#checker.addBucket(bucket);
    this.#counter.addBucket(bucket);
  }

  get stats(): DeviceStats {
    return this.#counter.snapshot(this.#inFlight);
  }

  async execute(bucket: number, inputs: NamedTensors, outputs: NamedTensors, options?: ExecuteOptions): Promise<void> {
    if (this.#closed) throw new AcceleratorError("closed", `${this.name} is closed`);
    const { bucketIndex, rows, tensors } = this.#checker.check(bucket, inputs, outputs, options);
    if (this.#inFlight >= this.#spec.maxQueuedCalls) throw queueFull(this.#spec.maxQueuedCalls);
    const { signal } = options ?? {};
    const ins = named(this.inputs, tensors, bucket);
    const outs = named(this.outputs, tensors.slice(this.inputs.length), bucket);
    this.#inFlight += 1;
    const previous = this.#last;
    const running = (async (): Promise<void> => {
      await previous;
      if (signal?.aborted) {
        this.#counter.countCancelled();
        throw cancelled(signal);
      }
      const began = performance.now();
      try {
        await this.#spec.run(bucket, ins, outs);
      } catch (error) {
        this.#counter.countFailed((performance.now() - began) * 1000);
        throw AcceleratorError.from(error, "run_failed", `${this.name} failed`);
      }
      this.#counter.countDone(bucketIndex, rows, (performance.now() - began) * 1000);
    })();
    const ended = (): void => {
      this.#inFlight -= 1;
    };
    this.#last = running.then(ended, ended);
    return running;
  }

  settleEnded(): void {
    // Its calls end on the caller's thread: there are none that it was not told of.
  }

  close(): Promise<void> {
    this.#closed = true;
    return this.#last;
  }
}

function named(specs: readonly TensorSpec[], tensors: readonly SharedFloat32Array[], bucket: number): NamedTensors {
  return Object.fromEntries(specs.map((spec, i) => [spec.name, tensors[i]!.subarray(0, bucket * rowLength(spec))]));
}
