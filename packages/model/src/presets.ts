import { ModelError } from "./model-error.ts";
import type { DenseNetworkSpec, ModelSpec } from "./model-spec.ts";

/** The models of the benchmark: DLRM-DCNv2 over the Criteo 1TB vocabulary, capped. */
export const PRESET_NAMES = ["dcnv2-6m", "dcnv2-smoke", "dcnv2-lite"] as const;
export type PresetName = (typeof PRESET_NAMES)[number];

/** Rows of each table before the cap: MLPerf's DLRM-DCNv2 on Criteo 1TB, multi-hot. */
const VOCABULARY_SIZES = [
  40_000_000, 39_060, 17_295, 7424, 20_265, 3, 7122, 1543, 63, 40_000_000, 3_067_956, 405_282, 10, 2209, 11_938, 155, 4,
  976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152, 12_973, 108, 36,
] as const;

/** Ids of each feature in an example, same order; 214 in all. */
const HOT_SIZES = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1] as const;

const FULL_NETWORK: DenseNetworkSpec = {
  bottomMlp: [512, 256, 128],
  crossLayers: 3,
  crossProjection: 512,
  topMlp: [1024, 1024, 512, 256, 1],
};

/** A dense network that one CPU core runs at tens of thousands of examples a second. */
const LITE_NETWORK: DenseNetworkSpec = {
  bottomMlp: [64, 128],
  crossLayers: 1,
  crossProjection: 16,
  topMlp: [64, 32, 1],
};

const PRESETS: Readonly<
  Record<PresetName, { readonly maxVocabSize: number; readonly denseNetwork: DenseNetworkSpec }>
> = {
  "dcnv2-6m": { maxVocabSize: 850_000, denseNetwork: FULL_NETWORK },
  "dcnv2-smoke": { maxVocabSize: 1000, denseNetwork: FULL_NETWORK },
  "dcnv2-lite": { maxVocabSize: 850_000, denseNetwork: LITE_NETWORK },
};

/**
 * The spec of a preset.
 * @param options.maxVocabSize rows that no table exceeds; default 850,000, for `dcnv2-smoke` 1,000.
 * @throws {ModelError} `invalid_option` for an unknown name or a cap that is not a positive integer.
 */
export function presetSpec(name: string, options: { readonly maxVocabSize?: number | undefined } = {}): ModelSpec {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name as PresetName] : undefined;
  if (preset === undefined) {
    throw new ModelError(
      "invalid_option",
      `unknown preset ${JSON.stringify(name)}, expected one of ${PRESET_NAMES.join(", ")}`,
    );
  }
  const maxVocabSize = options.maxVocabSize ?? preset.maxVocabSize;
  if (!Number.isSafeInteger(maxVocabSize) || maxVocabSize < 1) {
    throw new ModelError("invalid_option", `maxVocabSize: expected a positive integer, got ${maxVocabSize}`);
  }
  return {
    name,
    embeddingDim: 128,
    denseFeatures: 13,
    features: VOCABULARY_SIZES.map((size, index) => ({
      name: `sparse_${index}`,
      vocabularySize: Math.min(size, maxVocabSize),
      hotSize: HOT_SIZES[index] as number,
      pooling: "sum",
    })),
    denseNetwork: preset.denseNetwork,
  };
}
