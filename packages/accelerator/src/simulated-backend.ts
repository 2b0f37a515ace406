import { performance } from "node:perf_hooks";
import type { Backend } from "./backend.ts";
import { DotKernel } from "./dot-kernel.ts";
import type { DeviceMemory, PrecisionReport, SharedFloat32Array, TensorSpec } from "./device.ts";
import type { SimulatedSettings } from "./device-spec.ts";

interface SimulatedTensor {
  readonly floats: SharedFloat32Array;
  /** The same memory. */
  readonly bytes: Buffer;
}

/** See `SimulatedSpec`. */
export class SimulatedBackend implements Backend<SimulatedTensor> {
  readonly name: string;
  readonly platform = "sim";
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[] = [{ name: "scores", width: [] }];
  readonly precision: PrecisionReport = { name: "float32", quantizedWeights: 0 };
  readonly memory: DeviceMemory = { kind: "host" };
  readonly #fixedMicros: number;
  readonly #microsPerExample: number;
  readonly #w: Float32Array;
  readonly #vDot: DotKernel;
  /** Never notified: waiting on it is sleeping. */
  readonly #sleeper = new Int32Array(new SharedArrayBuffer(4));

  constructor(settings: SimulatedSettings) {
    const { w, v, fixedMicros, microsPerExample } = settings;
    this.name = `simulated accelerator (${fixedMicros} µs + ${microsPerExample} µs an example)`;
    this.inputs = [
      { name: "dense", width: [w.length] },
      { name: "pooled", width: [v.length] },
    ];
    this.#fixedMicros = fixedMicros;
    this.#microsPerExample = microsPerExample;
    this.#w = w;
    this.#vDot = new DotKernel(v);
  }

  addBucket(): void {
    // It runs any.
  }

  wrap(_spec: TensorSpec, _bucket: number, floats: SharedFloat32Array): SimulatedTensor {
    return { floats, bytes: Buffer.from(floats.buffer, floats.byteOffset, floats.byteLength) };
  }

  run(bucket: number, inputs: readonly SimulatedTensor[], outputs: readonly SimulatedTensor[]): void {
    const endsAt = performance.now() + (this.#fixedMicros + this.#microsPerExample * bucket) / 1000;
    this.#score(inputs[0]!.floats, inputs[1]!.bytes, outputs[0]!.floats);
    const leftMs = endsAt - performance.now();
    // A plain sleep, as in every other arm: the system's overshoot (some 60 µs) is part of the device, and `stats` has it.
    if (leftMs > 0) Atomics.wait(this.#sleeper, 0, 0, leftMs);
  }

  /** Computes without sleeping. */
  warm(_bucket: number, inputs: readonly SimulatedTensor[], outputs: readonly SimulatedTensor[]): void {
    this.#score(inputs[0]!.floats, inputs[1]!.bytes, outputs[0]!.floats);
  }

  #score(dense: Float32Array, pooled: Buffer, scores: Float32Array): void {
    const w = this.#w;
    this.#vDot.run(pooled, scores);
    for (let row = 0, at = 0; row < scores.length; row++) {
      let sum = scores[row]!;
      for (let i = 0; i < w.length; i++) sum += w[i]! * dense[at++]!;
      scores[row] = 1 / (1 + Math.exp(-sum));
    }
  }

  async close(): Promise<void> {}
}
