import type { PjrtSpec } from "@dlrm/accelerator";
import { checkPjrtSpec } from "../src/pjrt-spec.ts";
import type { PjrtSettings } from "../src/pjrt-spec.ts";
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

/** The settings that the spec becomes, for a backend opened on the test's own thread. */
export function pjrtSettings(pluginPath: string, change: Partial<PjrtSpec> = {}): PjrtSettings {
  return checkPjrtSpec({ ...pjrtSpec(pluginPath), ...change });
}

/** `rankingProgram(2)` as JAX 0.10.2 serializes programs: a portable artifact of StableHLO 1.0.0, which is MLIR bytecode. */
export const RANKING_BYTECODE: Uint8Array = Buffer.from(
  "TUzvUg1TdGFibGVITE9fdjEuMC4wAAEfBQEFDwEDCwMNDxMXGx8jA1UvFwEdCwsTExMTExMTExMTExMDEw8LLxMLLwsLCwMXBxMXGxMTBxMjFxMC" +
    "JgIFEwUVFwEDAxcBBQcXAQU1FwEFZxcBBZ8XAQXFFwEHFRcBCRUXAQsVFwENFRcBDxUXARELHxUBAwEfDxEBAAAAAAAAAAMFJSUXBR8PEQAAAAAA" +
    "AAAAIxEdFx0ZCSkDCQEpBQkRASkHCQkNASkDEQEpAxkBHSkDBQ0RCQUHCQsDAykFCRkBKQMBDQSZBQFQBQEHBIkDAQUFUAcDBwR1AxMbCQsJDwsT" +
    "DRcPAAcGEQMTAwMDRhMFAwMFAQUDRhUFAwMFCQcJBhcDAwULDQsGGQMDAw8NBBsDEQYDAQUBAPUbDwsXBRUZDxcRHw8LEWJ1aWx0aW4AdmhsbwBt" +
    "b2R1bGUAZG90X2dlbmVyYWxfdjEAZnVuY192MQByZXNoYXBlX3YxAGFkZF92MQBsb2dpc3RpY192MQByZXR1cm5fdjEALQByYW5raW5nX2IyAG1h" +
    "aW4AcHVibGljAAghBwUHAQsfKR8rLQsdISMdJw==",
  "base64",
);
