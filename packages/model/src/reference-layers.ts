/** Rows that share one walk through the weights; four accumulators fit in registers. */
const ROWS_AT_ONCE = 4;

/**
 * x [rows, inputs] @ weight [inputs, outputs] + bias [outputs], row-major, every sum in float64.
 * The sum of an output starts with its bias and takes the inputs in their order.
 */
export function linear(
  x: Float64Array,
  rows: number,
  weight: Float32Array,
  outputs: number,
  bias?: Float32Array,
): Float64Array<ArrayBuffer> {
  const inputs = weight.length / outputs;
  const result = new Float64Array(rows * outputs);
  if (bias !== undefined) for (let row = 0; row < rows; row++) result.set(bias, row * outputs);
  let row = 0;
  for (; row + ROWS_AT_ONCE <= rows; row += ROWS_AT_ONCE) {
    const [y0, y1, y2, y3] = [0, 1, 2, 3].map((lane) =>
      result.subarray((row + lane) * outputs, (row + lane + 1) * outputs),
    ) as [Float64Array, Float64Array, Float64Array, Float64Array];
    for (let input = 0; input < inputs; input++) {
      const x0 = x[row * inputs + input] as number;
      const x1 = x[(row + 1) * inputs + input] as number;
      const x2 = x[(row + 2) * inputs + input] as number;
      const x3 = x[(row + 3) * inputs + input] as number;
      const start = input * outputs;
      for (let output = 0; output < outputs; output++) {
        const w = weight[start + output] as number;
        y0[output] = (y0[output] as number) + x0 * w;
        y1[output] = (y1[output] as number) + x1 * w;
        y2[output] = (y2[output] as number) + x2 * w;
        y3[output] = (y3[output] as number) + x3 * w;
      }
    }
  }
  for (; row < rows; row++) {
    const y = result.subarray(row * outputs, (row + 1) * outputs);
    for (let input = 0; input < inputs; input++) {
      const value = x[row * inputs + input] as number;
      const start = input * outputs;
      for (let output = 0; output < outputs; output++) {
        y[output] = (y[output] as number) + value * (weight[start + output] as number);
      }
    }
  }
  return result;
}

/** In place. */
export function relu(x: Float64Array): void {
  for (let index = 0; index < x.length; index++) {
    if ((x[index] as number) < 0) x[index] = 0;
  }
}

/** x0 * crossed + x, elementwise, into `crossed`. */
export function crossInto(crossed: Float64Array, x0: Float64Array, x: Float64Array): void {
  for (let index = 0; index < crossed.length; index++) {
    crossed[index] = (x0[index] as number) * (crossed[index] as number) + (x[index] as number);
  }
}

/** a [rows, n] and b [rows, m] side by side: [rows, n + m]. */
export function sideBySide(a: Float64Array, b: Float64Array, rows: number): Float64Array<ArrayBuffer> {
  const n = a.length / rows;
  const m = b.length / rows;
  const result = new Float64Array(rows * (n + m));
  for (let row = 0; row < rows; row++) {
    result.set(a.subarray(row * n, (row + 1) * n), row * (n + m));
    result.set(b.subarray(row * m, (row + 1) * m), row * (n + m) + n);
  }
  return result;
}

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}
