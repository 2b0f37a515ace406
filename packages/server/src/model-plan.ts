import type { ModelSpec } from "@dlrm/model";
import { InputBuffers } from "./input-buffers.ts";

const utf8 = new TextEncoder();

/** Name of the input that carries the dense features. */
export const DENSE_INPUT = "dense";

/** One input of a model, as requests must carry it. */
export interface InputPlan {
  readonly name: string;
  /** The name in UTF-8, as it stands on the wire. */
  readonly nameBytes: Uint8Array;
  /** Position in `ModelPlan.inputs`. */
  readonly index: number;
  /** Position of the feature whose table the ids look up; -1 for the dense features. */
  readonly feature: number;
  /** Second dimension of the tensor: dense features, or the hot size. */
  readonly width: number;
  /** Sum of the hot sizes of the features before this one. */
  readonly idOffset: number;
  /** Rows of the feature's table; 0 for the dense features. */
  readonly vocabularySize: number;
}

/** What decoding a request needs to know of a model, resolved once when the model is loaded. */
export interface ModelPlan {
  readonly denseFeatures: number;
  readonly idsPerExample: number;
  /** The dense input first, then one input a feature, in the order of the model's features. */
  readonly inputs: readonly InputPlan[];
  readonly inputByName: ReadonlyMap<string, InputPlan>;
  /** What requests are decoded into. */
  readonly buffers: InputBuffers;
}

export function planModel(spec: ModelSpec): ModelPlan {
  const inputs: InputPlan[] = [
    {
      name: DENSE_INPUT,
      nameBytes: utf8.encode(DENSE_INPUT),
      index: 0,
      feature: -1,
      width: spec.denseFeatures,
      idOffset: 0,
      vocabularySize: 0,
    },
  ];
  let idsPerExample = 0;
  for (const [feature, { name, hotSize, vocabularySize }] of spec.features.entries()) {
    inputs.push({
      name,
      nameBytes: utf8.encode(name),
      index: inputs.length,
      feature,
      width: hotSize,
      idOffset: idsPerExample,
      vocabularySize,
    });
    idsPerExample += hotSize;
  }
  return {
    denseFeatures: spec.denseFeatures,
    idsPerExample,
    inputs,
    buffers: new InputBuffers(spec.denseFeatures, idsPerExample),
    inputByName: new Map(inputs.map((input) => [input.name, input])),
  };
}
