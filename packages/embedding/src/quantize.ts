import { float16ToNumber, numberToFloat16, roundToEven } from "./float16.ts";
import { rowBytesOf } from "./table.ts";
import type { TableDtype } from "./table.ts";

/** The error of a conversion, over all elements of a table. */
export interface QuantizationError {
  /** The largest absolute difference of an element. */
  readonly max: number;
  /** Root of the mean squared difference. */
  readonly rms: number;
}

/** Adds errors up, row by row. */
export class ErrorMeter {
  #max = 0;
  #squares = 0;
  #count = 0;

  add(difference: number): void {
    this.#max = Math.max(this.#max, Math.abs(difference));
    this.#squares += difference * difference;
    this.#count++;
  }

  get error(): QuantizationError {
    return { max: this.#max, rms: Math.sqrt(this.#squares / Math.max(1, this.#count)) };
  }
}

/**
 * Converts float32 rows to another dtype, as FBGEMM does for its fused row-wise formats, and measures what is lost.
 * `values` is `[rows, dim]`; the result holds the rows one after the other.
 */
export function quantizeRows(values: Float32Array, dim: number, dtype: TableDtype, meter: ErrorMeter): Uint8Array {
  const rows = values.length / dim;
  const rowBytes = rowBytesOf(dtype, dim);
  const bytes = new Uint8Array(rows * rowBytes);
  const view = new DataView(bytes.buffer);
  const write = WRITERS[dtype];
  for (let row = 0; row < rows; row++) {
    write(values.subarray(row * dim, (row + 1) * dim), view, row * rowBytes, meter);
  }
  return bytes;
}

type WriteRow = (values: Float32Array, view: DataView, at: number, meter: ErrorMeter) => void;

const WRITERS: Readonly<Record<TableDtype, WriteRow>> = {
  float32(values, view, at) {
    for (const [d, value] of values.entries()) view.setFloat32(at + d * 4, value, true);
  },
  float16(values, view, at, meter) {
    for (const [d, value] of values.entries()) {
      const bits = numberToFloat16(value);
      view.setUint16(at + d * 2, bits, true);
      meter.add(float16ToNumber(bits) - value);
    }
  },
  bfloat16(values, view, at, meter) {
    const word = new DataView(new ArrayBuffer(4));
    for (const [d, value] of values.entries()) {
      word.setFloat32(0, value);
      const bits = word.getUint32(0);
      // Ties to even, on the upper 16 bits; a NaN is kept one.
      const rounded = Number.isNaN(value) ? 0x7fc0 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
      view.setUint16(at + d * 2, rounded, true);
      word.setUint32(0, rounded << 16);
      meter.add(word.getFloat32(0) - value);
    }
  },
  int8(values, view, at, meter) {
    const { min, max } = rangeOf(values);
    const scale = Math.fround(Math.fround(max - min) / 255);
    for (const [d, value] of values.entries()) {
      const code = codeOf(value, min, scale, 255);
      view.setUint8(at + d, code);
      meter.add(Math.fround(scale * code) + min - value);
    }
    view.setFloat32(at + values.length, scale, true);
    view.setFloat32(at + values.length + 4, min, true);
  },
  int4(values, view, at, meter) {
    const { min, max } = rangeOf(values);
    const biasBits = numberToFloat16(min);
    const bias = float16ToNumber(biasBits);
    const scaleBits = numberToFloat16((max - bias) / 15);
    const scale = float16ToNumber(scaleBits);
    for (const [d, value] of values.entries()) {
      const code = codeOf(value, bias, scale, 15);
      const byte = at + (d >> 1);
      view.setUint8(byte, d % 2 === 0 ? code : view.getUint8(byte) | (code << 4));
      meter.add(Math.fround(scale * code) + bias - value);
    }
    const end = at + Math.ceil(values.length / 2);
    view.setUint16(end, scaleBits, true);
    view.setUint16(end + 2, biasBits, true);
  },
};

function rangeOf(values: Float32Array): { min: number; max: number } {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of values) {
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  return { min, max };
}

/** The code whose value is nearest; a row of equal values has scale 0 and codes 0. */
function codeOf(value: number, bias: number, scale: number, largest: number): number {
  if (scale === 0) return 0;
  return Math.min(largest, Math.max(0, roundToEven((value - bias) / scale)));
}
