import { interactionWidth } from "./dense-weights.ts";
import type { ModelSpec } from "./model-spec.ts";

/** The operations of the dense network on values of some kind (names of an ONNX graph, SSA values of MLIR …). */
export interface DenseOperations<Value> {
  /** The input of this name: `dense` [B, denseFeatures] or `pooled` [B, features, embeddingDim]. */
  input(name: "dense" | "pooled"): Value;
  /** x [B, inputs] @ weight [inputs, outputs], plus bias [outputs] where there is one; both by tensor name. */
  linear(x: Value, weight: string, bias?: string): Value;
  relu(x: Value): Value;
  /** Elementwise, same shapes. */
  multiply(x: Value, y: Value): Value;
  add(x: Value, y: Value): Value;
  /** pooled [B, features, embeddingDim] as [B, features * embeddingDim]. */
  flattenBags(x: Value): Value;
  /** x [B, n] and y [B, m] side by side: [B, n + m]. */
  concat(x: Value, y: Value): Value;
  /** x [B, 1] to the scores [B]. */
  score(x: Value): Value;
}

/** Builds the dense network of `spec` out of `ops`, as {@link ModelSpec.denseNetwork} defines it; returns the scores. */
export function buildDenseNetwork<Value>(spec: ModelSpec, ops: DenseOperations<Value>): Value {
  const { bottomMlp, crossLayers, topMlp } = spec.denseNetwork;
  let z = ops.input("dense");
  for (let layer = 0; layer < bottomMlp.length; layer++) {
    z = ops.relu(ops.linear(z, `bottom_mlp.${layer}.weight`, `bottom_mlp.${layer}.bias`));
  }
  const x0 = ops.concat(z, ops.flattenBags(ops.input("pooled")));
  let x = x0;
  for (let layer = 0; layer < crossLayers; layer++) {
    const crossed = ops.linear(ops.linear(x, `cross.${layer}.v`), `cross.${layer}.u`, `cross.${layer}.bias`);
    x = ops.add(ops.multiply(x0, crossed), x);
  }
  for (let layer = 0; layer < topMlp.length; layer++) {
    if (layer > 0) x = ops.relu(x);
    x = ops.linear(x, `top_mlp.${layer}.weight`, `top_mlp.${layer}.bias`);
  }
  return ops.score(x);
}

/** Floating-point operations (a multiplication and an addition are two) of one example. */
export function denseFlopsPerExample(spec: ModelSpec): number {
  const { bottomMlp, crossLayers, crossProjection, topMlp } = spec.denseNetwork;
  const width = interactionWidth(spec);
  const mlp = (inputs: number, widths: readonly number[]): number =>
    widths.reduce((sum, outputs, layer) => sum + 2 * (widths[layer - 1] ?? inputs) * outputs, 0);
  return mlp(spec.denseFeatures, bottomMlp) + crossLayers * 4 * width * crossProjection + mlp(width, topMlp);
}
