import fc from "fast-check";
import { expect, test } from "vitest";
import { rankingProgram } from "../test/pjrt-fixture.ts";
import { roundToBfloat16, toBfloat16 } from "./bfloat16-program.ts";

test("weights of products become bfloat16 arguments, other sides the sum of two bfloat16 numbers", () => {
  const { program, products } = toBfloat16(rankingProgram(2), 2);
  expect(products).toBe(2);
  expect(program).toBe(`module @ranking_b2 {
  func.func public @main(%dense: tensor<2x4xf32>, %pooled: tensor<2x2x3xf32>, %w: tensor<4xbf16>, %v: tensor<6xbf16>) -> tensor<2xf32> {
    %0 = stablehlo.reshape %pooled : (tensor<2x2x3xf32>) -> tensor<2x6xf32>
    %bfloat16_3_hi = stablehlo.reduce_precision %dense, format = e8m7 : tensor<2x4xf32>
    %bfloat16_3_lo = stablehlo.subtract %dense, %bfloat16_3_hi : tensor<2x4xf32>
    %bfloat16_3_x2 = stablehlo.concatenate %bfloat16_3_hi, %bfloat16_3_lo, dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %bfloat16_3_xb = stablehlo.convert %bfloat16_3_x2 : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %bfloat16_3_y2 = stablehlo.dot_general %bfloat16_3_xb, %w, contracting_dims = [1] x [0] : (tensor<4x4xbf16>, tensor<4xbf16>) -> tensor<4xf32>
    %bfloat16_3_y_hi = stablehlo.slice %bfloat16_3_y2 [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    %bfloat16_3_y_lo = stablehlo.slice %bfloat16_3_y2 [2:4] : (tensor<4xf32>) -> tensor<2xf32>
    %1 = stablehlo.add %bfloat16_3_y_hi, %bfloat16_3_y_lo : tensor<2xf32>
    %bfloat16_4_hi = stablehlo.reduce_precision %0, format = e8m7 : tensor<2x6xf32>
    %bfloat16_4_lo = stablehlo.subtract %0, %bfloat16_4_hi : tensor<2x6xf32>
    %bfloat16_4_x2 = stablehlo.concatenate %bfloat16_4_hi, %bfloat16_4_lo, dim = 0 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %bfloat16_4_xb = stablehlo.convert %bfloat16_4_x2 : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %bfloat16_4_y2 = stablehlo.dot_general %bfloat16_4_xb, %v, contracting_dims = [1] x [0] : (tensor<4x6xbf16>, tensor<6xbf16>) -> tensor<4xf32>
    %bfloat16_4_y_hi = stablehlo.slice %bfloat16_4_y2 [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    %bfloat16_4_y_lo = stablehlo.slice %bfloat16_4_y2 [2:4] : (tensor<4xf32>) -> tensor<2xf32>
    %2 = stablehlo.add %bfloat16_4_y_hi, %bfloat16_4_y_lo : tensor<2xf32>
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

test("the smallest products stay float32, up to an eighth of all multiplications", () => {
  const chain = (...widths: readonly number[]): string =>
    [
      `func.func public @main(%x: tensor<2x${widths[0]}xf32>, ${widths
        .slice(1)
        .map((outputs, i) => `%w${i}: tensor<${widths[i]}x${outputs}xf32>`)
        .join(", ")}) -> tensor<2x${widths.at(-1)}xf32> {`,
      ...widths
        .slice(1)
        .map(
          (outputs, i) =>
            `%y${i} = stablehlo.dot_general %${i === 0 ? "x" : `y${i - 1}`}, %w${i}, contracting_dims = [1] x [0] : (tensor<2x${widths[i]}xf32>, tensor<${widths[i]}x${outputs}xf32>) -> tensor<2x${outputs}xf32>`,
        ),
      "}",
    ].join("\n");
  // 7 × 16 and 16 × 1: an eighth of 128 is 16.
  const eighth = toBfloat16(chain(7, 16, 1), 1);
  expect(eighth.products).toBe(1);
  expect(eighth.program).toContain("%w0: tensor<7x16xbf16>, %w1: tensor<16x1xf32>)");
  expect(eighth.program).toContain("%bfloat16_1_y2 [2:4, 0:16] : (tensor<4x16xf32>) -> tensor<2x16xf32>");
  expect(eighth.program).toContain(
    "%y1 = stablehlo.dot_general %y0, %w1, contracting_dims = [1] x [0] : (tensor<2x16xf32>",
  );
  // 6 × 16 and 16 × 1: an eighth of 112 is 14.
  expect(toBfloat16(chain(6, 16, 1), 1).products).toBe(2);
  expect(toBfloat16(chain(3, 2), 1).products).toBe(1);
});

test("other products than x [rows, n] · w [n, columns] stay float32", () => {
  const text =
    "%0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>";
  expect(toBfloat16(text, 0)).toEqual({ program: text, products: 0 });
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
