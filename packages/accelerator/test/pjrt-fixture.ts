import type { PjrtSpec } from "@dlrm/accelerator";
import { BUCKETS, V, W } from "./open-devices.ts";

/** scores = sigmoid(w · dense + v · pooled), with the weights as arguments. */
export function rankingProgram(bucket: number, denseWidth = 4): string {
  const line = (text: string): string => `    ${text}`;
  return [
    `module @ranking_b${bucket} {`,
    `  func.func public @main(%dense: tensor<${bucket}x${denseWidth}xf32>, %pooled: tensor<${bucket}x2x3xf32>, %w: tensor<${denseWidth}xf32>, %v: tensor<6xf32>) -> tensor<${bucket}xf32> {`,
    ...[
      `%0 = stablehlo.reshape %pooled : (tensor<${bucket}x2x3xf32>) -> tensor<${bucket}x6xf32>`,
      `%1 = stablehlo.dot_general %dense, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<${bucket}x${denseWidth}xf32>, tensor<${denseWidth}xf32>) -> tensor<${bucket}xf32>`,
      `%2 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<${bucket}x6xf32>, tensor<6xf32>) -> tensor<${bucket}xf32>`,
      `%3 = stablehlo.add %1, %2 : tensor<${bucket}xf32>`,
      `%4 = stablehlo.logistic %3 : tensor<${bucket}xf32>`,
      `return %4 : tensor<${bucket}xf32>`,
    ].map(line),
    "  }",
    "}",
    "",
  ].join("\n");
}

/** A device of the tests' network. One thread; nothing is kept on disk. */
export function pjrtSpec(pluginPath: string): PjrtSpec {
  return {
    kind: "pjrt",
    pluginPath,
    program: (bucket) => rankingProgram(bucket),
    buckets: BUCKETS,
    inputs: [
      { name: "dense", width: [4] },
      { name: "pooled", width: [2, 3] },
    ],
    outputs: [{ name: "scores", width: [] }],
    weights: [W, V],
    numThreads: 1,
    cacheDir: false,
  };
}
