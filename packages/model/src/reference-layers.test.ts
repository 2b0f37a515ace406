import * as fc from "fast-check";
import { expect, test } from "vitest";
import { crossInto, linear, relu, sideBySide, sigmoid } from "./reference-layers.ts";

const small = fc.integer({ min: -9, max: 9 });

test("linear equals the sum of products, exactly, for any number of rows", () => {
  const shapes = fc.tuple(
    fc.nat({ max: 11 }),
    fc.integer({ min: 1, max: 6 }),
    fc.integer({ min: 1, max: 6 }),
    fc.boolean(),
  );
  const cases = shapes.chain(([rows, inputs, outputs, hasBias]) =>
    fc.record({
      rows: fc.constant(rows),
      outputs: fc.constant(outputs),
      x: fc.array(small, { minLength: rows * inputs, maxLength: rows * inputs }),
      weight: fc.array(small, { minLength: inputs * outputs, maxLength: inputs * outputs }),
      bias: fc.array(small, { minLength: hasBias ? outputs : 0, maxLength: hasBias ? outputs : 0 }),
    }),
  );
  fc.assert(
    fc.property(cases, ({ rows, outputs, x, weight, bias }) => {
      const inputs = weight.length / outputs;
      const expected = Array.from({ length: rows * outputs }, (_, at) => {
        const [row, output] = [Math.floor(at / outputs), at % outputs];
        const products = Array.from(
          { length: inputs },
          (_value, input) => (x[row * inputs + input] as number) * (weight[input * outputs + output] as number),
        );
        // + 0: a product may be -0, which a sum that starts with 0 never is.
        return products.reduce((sum, product) => sum + product, bias[output] ?? 0) + 0;
      });
      const biasArray = bias.length > 0 ? Float32Array.from(bias) : undefined;
      const found = linear(Float64Array.from(x), rows, Float32Array.from(weight), outputs, biasArray);
      expect([...found]).toEqual(expected);
    }),
  );
});

test("sums are kept in float64", () => {
  const weight = Float32Array.of(2 ** 30, 1, -(2 ** 30));
  expect([...linear(Float64Array.of(1, 1, 1), 1, weight, 1)]).toEqual([1]);
});

test("relu cuts what is negative, and keeps NaN", () => {
  const x = Float64Array.of(-1, 0, 2, Number.NaN, Number.NEGATIVE_INFINITY);
  relu(x);
  expect([...x]).toEqual([0, 0, 2, Number.NaN, 0]);
});

test("a cross layer multiplies by x0 and adds x", () => {
  const crossed = Float64Array.of(1, 2, 3);
  crossInto(crossed, Float64Array.of(10, 20, 30), Float64Array.of(5, 6, 7));
  expect([...crossed]).toEqual([15, 46, 97]);
});

test("sideBySide joins rows", () => {
  expect([...sideBySide(Float64Array.of(1, 2), Float64Array.of(3, 4, 5, 6), 2)]).toEqual([1, 3, 4, 2, 5, 6]);
});

test("sigmoid", () => {
  expect([-800, 0, 800].map(sigmoid)).toEqual([0, 0.5, 1]);
  expect(sigmoid(Math.log(3))).toBeCloseTo(0.75, 15);
});
