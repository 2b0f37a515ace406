import fc from "fast-check";
import { expect, test } from "vitest";
import { rankingProgram } from "../test/pjrt-fixture.ts";
import { roundToBfloat16, toBfloat16 } from "./bfloat16-program.ts";

test("weights of products become bfloat16 arguments, other sides are rounded before the product", () => {
  const { program, products } = toBfloat16(rankingProgram(2), 2);
  expect(products).toBe(2);
  expect(program).toBe(`module @ranking_b2 {
  func.func public @main(%dense: tensor<2x4xf32>, %pooled: tensor<2x2x3xf32>, %w: tensor<4xbf16>, %v: tensor<6xbf16>) -> tensor<2xf32> {
    %0 = stablehlo.reshape %pooled : (tensor<2x2x3xf32>) -> tensor<2x6xf32>
    %bfloat16_0 = stablehlo.convert %dense : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %1 = stablehlo.dot_general %bfloat16_0, %w, contracting_dims = [1] x [0] : (tensor<2x4xbf16>, tensor<4xbf16>) -> tensor<2xf32>
    %bfloat16_1 = stablehlo.convert %0 : (tensor<2x6xf32>) -> tensor<2x6xbf16>
    %2 = stablehlo.dot_general %bfloat16_1, %v, contracting_dims = [1] x [0] : (tensor<2x6xbf16>, tensor<6xbf16>) -> tensor<2xf32>
    %3 = stablehlo.add %1, %2 : tensor<2xf32>
    %4 = stablehlo.logistic %3 : tensor<2xf32>
    return %4 : tensor<2xf32>
  }
}
`);
});

test("a weight that something else uses too stays float32 and is rounded in the program", () => {
  const text = rankingProgram(2).replace(
    "%3 = stablehlo.add %1, %2",
    "%x = stablehlo.add %w, %w : tensor<4xf32>\n    %3 = stablehlo.add %1, %2",
  );
  const { program } = toBfloat16(text, 2);
  expect(program).toContain("%w: tensor<4xf32>, %v: tensor<6xbf16>");
  expect(program).toContain("stablehlo.convert %w : (tensor<4xf32>) -> tensor<4xbf16>");
});

test("text without products is left as it is", () => {
  expect(toBfloat16("module {\n}\n", 0)).toEqual({ program: "module {\n}\n", products: 0 });
});

test("numbers are rounded to the nearest bfloat16, halves to even", () => {
  const bits = (...words: number[]): Float32Array => new Float32Array(Uint32Array.from(words).buffer);
  const rounded = roundToBfloat16(bits(0x3f80_0000, 0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0xff7f_ffff, 0x7f80_0001));
  expect([...rounded]).toEqual([0x3f80, 0x3f80, 0x3f82, 0x3f81, 0xff80, 0x7fc0]);
  fc.assert(
    fc.property(
      fc.float({ noNaN: true, noDefaultInfinity: true, max: Math.fround(1e30), min: Math.fround(-1e30) }),
      (number) => {
        const [half] = roundToBfloat16(Float32Array.of(number));
        const back = bits(half! << 16)[0]!;
        expect(Math.abs(back - number)).toBeLessThanOrEqual(Math.max(Math.abs(number) * 2 ** -8, 2 ** -133));
      },
    ),
  );
});
