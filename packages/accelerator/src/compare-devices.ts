import { performance } from "node:perf_hooks";
import { allocateTensor } from "./allocate-tensor.ts";
import { rowLength } from "./backend.ts";
import type { Device, NamedTensors, PrecisionReport, SharedFloat32Array } from "./device.ts";

export interface CompareOptions {
  /** One that all devices have. */
  readonly bucket: number;
  readonly inputs: NamedTensors;
  /** What the outputs should be, by name, one number for each of the bucket's: of a forward that is as exact as you like. */
  readonly expected?: Readonly<Record<string, ArrayLike<number>>>;
  /** Devices take turns, and each has so many. Default 5. */
  readonly rounds?: number;
  /** Calls of a turn, each awaited before the next. Default 4. */
  readonly calls?: number;
  /** Called after each round, to measure something else in turn. */
  readonly afterRound?: () => Promise<void>;
}

/** What one device did in a comparison; all of it can be written as JSON. */
export interface ComparedDevice {
  readonly name: string;
  readonly kind: Device["kind"];
  readonly platform: string;
  readonly precision: PrecisionReport["name"];
  readonly bucket: number;
  /** Time of a call, of each turn, in microseconds. */
  readonly micros: readonly number[];
  /** By the median of those. */
  readonly examplesPerSecond: number;
  /** Largest difference of an output to `expected`; absent without it. */
  readonly maxAbsError?: number;
}

/**
 * Runs the same batch on several open devices in turn: how long each takes, and how far its outputs are from the right ones. In the
 * order of the devices. Rejects with what a call rejects with.
 */
export async function compareDevices(
  devices: readonly Device[],
  { bucket, inputs, expected, rounds = 5, calls = 4, afterRound }: CompareOptions,
): Promise<ComparedDevice[]> {
  const compared: { device: Device; outputs: Record<string, SharedFloat32Array>; micros: number[] }[] = [];
  for (const device of devices) {
    const outputs: Record<string, SharedFloat32Array> = {};
    for (const spec of device.outputs) outputs[spec.name] = allocateTensor(bucket * rowLength(spec));
    // Not timed: a buffer that is seen for the first time costs a message.
    await device.execute(bucket, inputs, outputs);
    compared.push({ device, outputs, micros: [] });
  }
  for (let round = 0; round < rounds; round++) {
    for (const { device, outputs, micros } of compared) {
      const began = performance.now();
      for (let call = 0; call < calls; call++) await device.execute(bucket, inputs, outputs);
      micros.push(((performance.now() - began) * 1000) / calls);
    }
    await afterRound?.();
  }
  return compared.map(({ device, outputs, micros }) => {
    const { name, kind, platform, precision } = device;
    const examplesPerSecond = (bucket * 1e6) / median(micros);
    const result = { name, kind, platform, precision: precision.name, bucket, micros, examplesPerSecond };
    return expected === undefined
      ? result
      : Object.assign(result, { maxAbsError: maxAbsDifference(outputs, expected) });
  });
}

function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function maxAbsDifference(outputs: NamedTensors, expected: Readonly<Record<string, ArrayLike<number>>>): number {
  let max = 0;
  for (const [name, wanted] of Object.entries(expected)) {
    // NaN, also where there is no such output or number, is no small difference.
    for (let i = 0; i < wanted.length; i++) {
      const difference = Math.abs(wanted[i]! - (outputs[name]?.[i] ?? Number.NaN));
      if (!(difference <= max)) max = Number.isNaN(max) ? max : difference;
    }
  }
  return max;
}
