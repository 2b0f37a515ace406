import { setImmediate } from "node:timers/promises";
import type { Bundle } from "./bundle.ts";
import { denseNetworkTensors } from "./dense-weights.ts";
import { ModelError } from "./model-error.ts";
import type { ModelSpec } from "./model-spec.ts";
import { crossInto, linear, relu, sideBySide, sigmoid } from "./reference-layers.ts";
import { ReferenceTables } from "./reference-tables.ts";
import { readTensors, type Tensor } from "./safetensors-reader.ts";

/** Inputs of a batch of examples. */
export interface ReferenceInput {
  /** Number of examples. */
  readonly batch: number;
  /** Dense features, [batch, denseFeatures] row-major. */
  readonly dense: Float32Array;
  /** One array a feature, in the spec's order: [batch, hotSize] row-major. */
  readonly ids: readonly Int32Array[];
}

/** Inputs of a batch of examples whose rows are looked up already. */
export interface PooledInput {
  /** Number of examples. */
  readonly batch: number;
  /** Dense features, [batch, denseFeatures] row-major. */
  readonly dense: ArrayLike<number>;
  /** Pooled vectors, [batch, features × embeddingDim] row-major. */
  readonly pooled: ArrayLike<number>;
}

/**
 * - `network`: the dense network of the spec.
 * - `simulated`: the simulated accelerator's score, sigmoid(w · dense + v · flatten(pooled)).
 */
export type ReferenceScoring = "network" | "simulated";

/**
 * What a bundle's scores are, computed slowly and plainly to compare faster things with: in float64, straight from the
 * definition, reading only the rows that are needed.
 */
export interface ReferenceModel {
  /**
   * Scores of a batch, [batch].
   * @throws {ModelError} `invalid_input`, naming the input, what was expected and what came.
   */
  forward(input: ReferenceInput, scoring: ReferenceScoring): Promise<Float64Array>;
  /** The same of pooled vectors that are given; reads no tables. */
  scorePooled(input: PooledInput, scoring: ReferenceScoring): Promise<Float64Array>;
  /** Closes the files; `forward` fails from then on. */
  close(): Promise<void>;
}

/** Examples whose whole network is computed before other work of this thread gets its turn. */
const EXAMPLES_AT_ONCE = 8;

/**
 * Opens the reference model of a bundle. Weights of the dense network are read at the first use (64 MB for the presets with
 * the full network).
 * @throws {ModelError} `invalid_bundle` or `invalid_safetensors` if the files do not fit the spec.
 */
export async function openReference(bundle: Bundle): Promise<ReferenceModel> {
  const { spec, paths } = bundle;
  const tables = await ReferenceTables.open(bundle);
  const weightsOf: Partial<Record<ReferenceScoring, Promise<ReadonlyMap<string, Tensor>>>> = {};
  const loadWeights = (scoring: ReferenceScoring): Promise<ReadonlyMap<string, Tensor>> => {
    const names =
      scoring === "network" ? denseNetworkTensors(spec).map(({ name }) => name) : ["simulated.w", "simulated.v"];
    return (weightsOf[scoring] ??= readTensors(paths.dense, names));
  };
  const width = spec.features.length * spec.embeddingDim;
  const scorePooled = async (input: PooledInput, scoring: ReferenceScoring): Promise<Float64Array> => {
    checkPooled(spec, input, width);
    const { batch } = input;
    const dense = Float64Array.from(input.dense);
    const pooled = Float64Array.from(input.pooled);
    const score = scoring === "network" ? networkScores : simulatedScores;
    const weights = await loadWeights(scoring);
    const scores = new Float64Array(batch);
    for (let first = 0; first < batch; first += EXAMPLES_AT_ONCE) {
      const end = Math.min(batch, first + EXAMPLES_AT_ONCE);
      const denseRows = dense.subarray(first * spec.denseFeatures, end * spec.denseFeatures);
      scores.set(score(spec, weights, denseRows, pooled.subarray(first * width, end * width), end - first), first);
      await setImmediate();
    }
    return scores;
  };
  return {
    scorePooled,
    forward: async (input, scoring) => {
      checkInput(spec, input);
      const { batch, dense } = input;
      const pooled = new Float64Array(batch * width);
      for (const [index, feature] of spec.features.entries()) {
        await tables.addBags(feature, input.ids[index] as Int32Array, pooled, width, index * spec.embeddingDim);
      }
      return scorePooled({ batch, dense, pooled }, scoring);
    },
    close: () => tables.close(),
  };
}

function networkScores(
  spec: ModelSpec,
  weights: ReadonlyMap<string, Tensor>,
  dense: Float64Array,
  pooled: Float64Array,
  rows: number,
): Float64Array {
  const { bottomMlp, crossLayers, topMlp } = spec.denseNetwork;
  const weight = (name: string): Float32Array => (weights.get(name) as Tensor).data;
  let z = dense;
  for (const [layer, outputs] of bottomMlp.entries()) {
    z = linear(z, rows, weight(`bottom_mlp.${layer}.weight`), outputs, weight(`bottom_mlp.${layer}.bias`));
    relu(z);
  }
  const x0 = sideBySide(z, pooled, rows);
  let x: Float64Array = x0;
  for (let layer = 0; layer < crossLayers; layer++) {
    const inner = linear(x, rows, weight(`cross.${layer}.v`), spec.denseNetwork.crossProjection);
    const crossed = linear(inner, rows, weight(`cross.${layer}.u`), x0.length / rows, weight(`cross.${layer}.bias`));
    crossInto(crossed, x0, x);
    x = crossed;
  }
  for (const [layer, outputs] of topMlp.entries()) {
    x = linear(x, rows, weight(`top_mlp.${layer}.weight`), outputs, weight(`top_mlp.${layer}.bias`));
    if (layer < topMlp.length - 1) relu(x);
  }
  return x.map(sigmoid);
}

function simulatedScores(
  _spec: ModelSpec,
  weights: ReadonlyMap<string, Tensor>,
  dense: Float64Array,
  pooled: Float64Array,
  rows: number,
): Float64Array {
  const fromDense = linear(dense, rows, (weights.get("simulated.w") as Tensor).data, 1);
  const fromPooled = linear(pooled, rows, (weights.get("simulated.v") as Tensor).data, 1);
  return fromDense.map((value, row) => sigmoid(value + (fromPooled[row] as number)));
}

function checkPooled(spec: ModelSpec, { batch, dense, pooled }: PooledInput, width: number): void {
  const sizes = { dense: [dense.length, spec.denseFeatures], pooled: [pooled.length, width] } as const;
  for (const [name, [length, columns]] of Object.entries(sizes)) {
    if (length !== batch * columns) {
      const message = `${name}: expected ${batch * columns} values [${batch}, ${columns}], got ${length}`;
      throw new ModelError("invalid_input", message);
    }
  }
}

function checkInput(spec: ModelSpec, { batch, dense, ids }: ReferenceInput): void {
  const invalid = (message: string): ModelError => new ModelError("invalid_input", message);
  if (!Number.isSafeInteger(batch) || batch < 1) throw invalid(`batch: expected a positive integer, got ${batch}`);
  const denseValues = batch * spec.denseFeatures;
  if (dense.length !== denseValues) {
    throw invalid(`dense: expected ${denseValues} values [${batch}, ${spec.denseFeatures}], got ${dense.length}`);
  }
  if (ids.length !== spec.features.length) {
    throw invalid(`ids: expected ${spec.features.length} arrays, one a feature, got ${ids.length}`);
  }
  for (const [index, { name, hotSize, vocabularySize }] of spec.features.entries()) {
    const bags = ids[index] as Int32Array;
    if (bags.length !== batch * hotSize) {
      throw invalid(`${name}: expected ${batch * hotSize} ids [${batch}, ${hotSize}], got ${bags.length}`);
    }
    const at = bags.findIndex((id) => id < 0 || id >= vocabularySize);
    if (at >= 0) {
      const where = `example ${Math.floor(at / hotSize)}, position ${at % hotSize}`;
      throw invalid(`${name}: expected ids from 0 to ${vocabularySize - 1}, got ${bags[at]} (${where})`);
    }
  }
}
