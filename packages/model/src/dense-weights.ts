import type { ModelSpec } from "./model-spec.ts";
import type { Tensor } from "./safetensors-reader.ts";
import { fillUniform, uniformStream } from "./uniform-stream.ts";

/** A tensor of the dense network (or of the simulated accelerator) and how its seeded values are made. */
export interface DenseTensorSpec {
  readonly name: string;
  readonly shape: readonly number[];
  /** Values are uniform in [-bound, bound). */
  readonly bound: number;
  readonly opposedRows: boolean;
}

/** Values of one example that enter the first cross layer: (features + 1) * embeddingDim. */
export function interactionWidth(spec: ModelSpec): number {
  return (spec.features.length + 1) * spec.embeddingDim;
}

const BIAS_BOUND = 0.05;
const CROSS_BIAS_BOUND = 0.1;
const SIMULATED_BOUND = 0.1;

/**
 * The weights of the dense network, in the order in which it uses them.
 *
 * The bounds keep scores spread out and away from 0 and 1, whatever the seed: each layer keeps the variance of its input,
 * and where the input comes from a ReLU, which makes it positive on average, each pair of weight rows is opposed. Without
 * that the common part of all examples grows with every layer, until the seed rather than the example decides the score.
 */
export function denseNetworkTensors(spec: ModelSpec): DenseTensorSpec[] {
  const { bottomMlp, crossLayers, crossProjection, topMlp } = spec.denseNetwork;
  const width = interactionWidth(spec);
  const tensors: DenseTensorSpec[] = [];
  mlp("bottom_mlp", spec.denseFeatures, bottomMlp, 1);
  for (let layer = 0; layer < crossLayers; layer++) {
    weight(`cross.${layer}.v`, width, crossProjection, { gain: 1, afterRelu: false });
    weight(`cross.${layer}.u`, crossProjection, width, { gain: 2, afterRelu: false });
    bias(`cross.${layer}.bias`, width, CROSS_BIAS_BOUND);
  }
  // Pooled vectors have variance 1/12, which the cross layers about double; with this gain logits have about 1.
  mlp("top_mlp", width, topMlp, 2);
  return tensors;

  function mlp(prefix: string, inputs: number, widths: readonly number[], firstGain: number): void {
    for (const [layer, outputs] of widths.entries()) {
      weight(`${prefix}.${layer}.weight`, widths[layer - 1] ?? inputs, outputs, {
        gain: layer === 0 ? firstGain : 1,
        afterRelu: layer > 0,
      });
      bias(`${prefix}.${layer}.bias`, outputs, BIAS_BOUND);
    }
  }

  function weight(
    name: string,
    inputs: number,
    outputs: number,
    { gain, afterRelu }: { gain: number; afterRelu: boolean },
  ): void {
    // Of a standard normal, the difference of two independent ReLUs has variance 1 - 1/π: 0.34 for each of them.
    const bound = gain * Math.sqrt((afterRelu ? 3 / 0.34 : 3) / inputs);
    tensors.push({ name, shape: [inputs, outputs], bound, opposedRows: afterRelu });
  }

  function bias(name: string, outputs: number, bound: number): void {
    tensors.push({ name, shape: [outputs], bound, opposedRows: false });
  }
}

/** All tensors of `dense.safetensors`: the dense network's, then the simulated accelerator's. */
export function denseTensors(spec: ModelSpec): DenseTensorSpec[] {
  const pooled = spec.features.length * spec.embeddingDim;
  return [
    ...denseNetworkTensors(spec),
    { name: "simulated.w", shape: [spec.denseFeatures], bound: SIMULATED_BOUND, opposedRows: false },
    { name: "simulated.v", shape: [pooled], bound: SIMULATED_BOUND, opposedRows: false },
  ];
}

/** The seeded values of one tensor. */
export function makeDenseTensor(tensor: DenseTensorSpec, seed: number): Tensor {
  const data = new Float32Array(tensor.shape.reduce((product, size) => product * size, 1));
  const width = tensor.shape.at(-1) as number;
  fillUniform(data, uniformStream(seed, tensor.name), {
    firstRow: 0,
    width,
    bound: tensor.bound,
    opposedRows: tensor.opposedRows,
  });
  return { dtype: "F32", shape: tensor.shape, data };
}
