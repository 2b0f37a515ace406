import { expect, test } from "vitest";
import { TINY_SPEC } from "../test/tiny-spec.ts";
import { DEFAULT_BUCKETS } from "./buckets.ts";
import { emitStableHlo } from "./stablehlo.ts";

const SMALLEST = {
  ...TINY_SPEC,
  features: TINY_SPEC.features.slice(0, 1),
  denseNetwork: { bottomMlp: [5], crossLayers: 1, crossProjection: 2, topMlp: [4, 1] },
};

test("the text of a small model is exactly this", () => {
  const text = emitStableHlo(SMALLEST, { buckets: [2], precision: "DEFAULT" });
  expect(text).toBe(
    `// The dense network of tiny: one module a batch size, separated by lines of five dashes.
// arguments: dense pooled bottom_mlp.0.weight bottom_mlp.0.bias cross.0.v cross.0.u cross.0.bias top_mlp.0.weight top_mlp.0.bias top_mlp.1.weight top_mlp.1.bias
module @dense_b2 {
  func.func public @main(%dense: tensor<2x3xf32>, %pooled: tensor<2x1x5xf32>, %bottom_mlp.0.weight: tensor<3x5xf32>, %bottom_mlp.0.bias: tensor<5xf32>, %cross.0.v: tensor<10x2xf32>, %cross.0.u: tensor<2x10xf32>, %cross.0.bias: tensor<10xf32>, %top_mlp.0.weight: tensor<10x4xf32>, %top_mlp.0.bias: tensor<4xf32>, %top_mlp.1.weight: tensor<4x1xf32>, %top_mlp.1.bias: tensor<1xf32>) -> tensor<2xf32> {
    %0 = stablehlo.dot_general %dense, %bottom_mlp.0.weight, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
    %1 = stablehlo.broadcast_in_dim %bottom_mlp.0.bias, dims = [1] : (tensor<5xf32>) -> tensor<2x5xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x5xf32>
    %3 = stablehlo.constant dense<0.000000e+00> : tensor<2x5xf32>
    %4 = stablehlo.maximum %2, %3 : tensor<2x5xf32>
    %5 = stablehlo.reshape %pooled : (tensor<2x1x5xf32>) -> tensor<2x5xf32>
    %6 = stablehlo.concatenate %4, %5, dim = 1 : (tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x10xf32>
    %7 = stablehlo.dot_general %6, %cross.0.v, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x10xf32>, tensor<10x2xf32>) -> tensor<2x2xf32>
    %8 = stablehlo.dot_general %7, %cross.0.u, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x2xf32>, tensor<2x10xf32>) -> tensor<2x10xf32>
    %9 = stablehlo.broadcast_in_dim %cross.0.bias, dims = [1] : (tensor<10xf32>) -> tensor<2x10xf32>
    %10 = stablehlo.add %8, %9 : tensor<2x10xf32>
    %11 = stablehlo.multiply %6, %10 : tensor<2x10xf32>
    %12 = stablehlo.add %11, %6 : tensor<2x10xf32>
    %13 = stablehlo.dot_general %12, %top_mlp.0.weight, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x10xf32>, tensor<10x4xf32>) -> tensor<2x4xf32>
    %14 = stablehlo.broadcast_in_dim %top_mlp.0.bias, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %15 = stablehlo.add %13, %14 : tensor<2x4xf32>
    %16 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %17 = stablehlo.maximum %15, %16 : tensor<2x4xf32>
    %18 = stablehlo.dot_general %17, %top_mlp.1.weight, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x1xf32>) -> tensor<2x1xf32>
    %19 = stablehlo.broadcast_in_dim %top_mlp.1.bias, dims = [1] : (tensor<1xf32>) -> tensor<2x1xf32>
    %20 = stablehlo.add %18, %19 : tensor<2x1xf32>
    %21 = stablehlo.reshape %20 : (tensor<2x1xf32>) -> tensor<2xf32>
    %22 = stablehlo.logistic %21 : tensor<2xf32>
    return %22 : tensor<2xf32>
  }
}
`,
  );
});

test("there is a module for each power of two up to 4096, separated by MLIR's lines, in full precision", () => {
  const text = emitStableHlo(TINY_SPEC);
  const modules = text.split("// -----\n");
  expect(DEFAULT_BUCKETS).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
  expect(modules.map((module) => /module @dense_b(\d+) /.exec(module)?.[1])).toEqual(DEFAULT_BUCKETS.map(String));
  expect(text).not.toContain("DEFAULT");
  expect(text.match(/precision = \[HIGHEST, HIGHEST\]/g)).toHaveLength(13 * 9);
});
