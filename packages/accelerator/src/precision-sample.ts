import { rowLength } from "./backend.ts";
import type { PrecisionReport, TensorSpec } from "./device.ts";

/** Enough for a stable worst case, and a fraction of a second for any network. */
const MAX_SAMPLE_ROWS = 64;

/** The batch on which two precisions are compared: the same numbers, uniform in ±0.5, every time. */
export interface PrecisionSample {
  readonly rows: number;
  /** In the order of the inputs. */
  readonly inputs: readonly Float32Array[];
}

/** A sample as large as a bucket of `buckets`, which are ascending. */
export function precisionSample(inputs: readonly TensorSpec[], buckets: readonly number[]): PrecisionSample {
  const rows = buckets.findLast((bucket) => bucket <= MAX_SAMPLE_ROWS) ?? buckets[0]!;
  const uniform = uniformNumbers();
  return {
    rows,
    inputs: inputs.map((spec) => Float32Array.from({ length: rows * rowLength(spec) }, () => uniform.next().value)),
  };
}

/** A 32-bit linear congruential generator. */
function* uniformNumbers(): Generator<number, never> {
  for (let state = 1; ; state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) yield state / 2 ** 32 - 0.5;
}

/** How far the outputs of a sample are from the exact ones. */
export function precisionError(
  rows: number,
  exact: readonly Float32Array[],
  actual: readonly Float32Array[],
): NonNullable<PrecisionReport["error"]> {
  const differences = exact.flatMap((wanted, i) => [...actual[i]!].map((value, at) => Math.abs(value - wanted[at]!)));
  const maxAbs = differences.reduce((max, difference) => Math.max(max, difference), 0);
  const meanAbs = differences.reduce((sum, difference) => sum + difference, 0) / differences.length;
  return { maxAbs, meanAbs, rows };
}
