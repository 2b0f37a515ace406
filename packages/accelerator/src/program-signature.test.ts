import fc from "fast-check";
import { expect, test } from "vitest";
import { rankingProgram } from "../test/pjrt-fixture.ts";
import { hloParameters, mlirParameters, showTensor } from "./program-signature.ts";

test("the parameters of MLIR text are those of the public main", () => {
  expect(mlirParameters(rankingProgram(8))?.map(showTensor)).toEqual([
    "tensor<8x4xf32>",
    "tensor<8x2x3xf32>",
    "tensor<4xf32>",
    "tensor<6xf32>",
  ]);
  const attributes = `func.func private @other(%x: tensor<1xf32>)
    func.func public @main(%arg0: tensor<2xbf16> {mhlo.layout = "(a)"}, %arg1: tensor<f32>) -> (tensor<2xf32>) {`;
  expect(mlirParameters(attributes)?.map(showTensor)).toEqual(["tensor<2xbf16>", "tensor<f32>"]);
  expect(mlirParameters("func.func @main() -> tensor<f32>")).toEqual([]);
  expect(mlirParameters("func.func @main(%x: tensor<f32>")).toBeUndefined();
  expect(mlirParameters("module {}")).toBeUndefined();
});

const field = (number: number, ...content: number[]): number[] => [number * 8 + 2, content.length, ...content];
const integer = (number: number, value: number): number[] => [number * 8, value];

test("the parameters of a serialized HLO module are those of its program shape", () => {
  const scalar = field(1, ...integer(2, 16));
  const matrix = field(1, ...integer(2, 11), ...field(3, 2, 3));
  const module = [...field(1, 109), ...field(4, ...matrix, ...scalar, ...field(2, ...integer(2, 11)))];
  const expected = ["tensor<2x3xf32>", "tensor<bf16>"];
  expect(hloParameters("hlo", Uint8Array.from(module))?.map(showTensor)).toEqual(expected);
  const withConfig = Uint8Array.from(field(1, ...module));
  expect(hloParameters("hlo_with_config", withConfig)?.map(showTensor)).toEqual(expected);
  expect(hloParameters("mlir", withConfig)).toBeUndefined();
  expect(hloParameters("hlo", Uint8Array.from(field(1, 109)))).toBeUndefined();
});

test("any bytes and any text are read without an exception", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), fc.string(), (bytes, text) => {
      hloParameters("hlo", bytes);
      hloParameters("hlo_with_config", bytes);
      mlirParameters(`func.func public @main(${text}`);
    }),
  );
  expect(hloParameters("hlo", Uint8Array.of(0xff))).toBeUndefined();
});
