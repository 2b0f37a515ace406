import { open, readFile } from "node:fs/promises";
import path from "node:path";
import { EmbeddingError } from "./embedding-error.ts";
import { openEmbeddingStore } from "./embedding-store.ts";
import type { PlanFeature } from "./plan-layout.ts";
import { readSafetensorsHeader } from "./safetensors.ts";

/** How far scores move when a bundle's tables are replaced by converted ones. */
export interface ScoreError {
  readonly examples: number;
  readonly max: number;
  readonly mean: number;
}

/** Examples gathered at a time. */
const BATCH = 64;

/**
 * Scores random examples (uniform ids, dense features 0) with a bundle's tables and with converted ones by the bundle's simulated
 * network, sigmoid(v · pooled), and compares them.
 */
export async function measureScoreError(bundleDir: string, converted: string, examples: number): Promise<ScoreError> {
  const features = await readFeatures(path.join(bundleDir, "model.json"));
  const weights = await readTensor(path.join(bundleDir, "dense.safetensors"), "simulated.v");
  const before = await openEmbeddingStore({ safetensors: path.join(bundleDir, "tables.safetensors") });
  const after = await openEmbeddingStore({ safetensors: converted });
  const rows = features.map(({ table }) => before.tables.find(({ name }) => name === table)?.rows ?? 1);
  const plans = [before.plan(features), after.plan(features)] as const;
  const { outputWidth, idsPerExample } = plans[0];
  if (weights.length !== outputWidth) {
    throw new EmbeddingError("invalid_file", `simulated.v has ${weights.length} weights, expected ${outputWidth}`);
  }
  const ids = new Int32Array(BATCH * idsPerExample);
  const pooled = new Float32Array(BATCH * outputWidth);
  let state = 1;
  let max = 0;
  let sum = 0;
  for (let done = 0; done < examples; done += BATCH) {
    let at = 0;
    for (const [feature, { hotSize }] of features.entries()) {
      for (let i = 0; i < BATCH * hotSize; i++) {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        ids[at++] = Math.floor((state / 2 ** 32) * (rows[feature] ?? 1));
      }
    }
    const [one, other] = plans.map((plan) => {
      plan.gather(ids, BATCH, pooled, 0);
      return scores(pooled, weights);
    });
    for (const [b, score] of (one ?? []).entries()) {
      const difference = Math.abs(score - (other?.[b] ?? Number.NaN));
      max = Math.max(max, difference);
      sum += difference;
    }
  }
  before.close();
  after.close();
  const scored = Math.ceil(examples / BATCH) * BATCH;
  return { examples: scored, max, mean: sum / scored };
}

function scores(pooled: Float32Array, weights: Float32Array): Float64Array {
  return Float64Array.from({ length: pooled.length / weights.length }, (_, b) => {
    let logit = 0;
    for (let d = 0; d < weights.length; d++) logit += (pooled[b * weights.length + d] ?? 0) * (weights[d] ?? 0);
    return 1 / (1 + Math.exp(-logit));
  });
}

async function readFeatures(file: string): Promise<readonly PlanFeature[]> {
  const model = JSON.parse(await readFile(file, "utf8")) as {
    spec?: { features?: readonly { name: string; hotSize: number; pooling: "sum" | "mean" }[] };
  };
  const features = model.spec?.features;
  if (!Array.isArray(features)) throw new EmbeddingError("invalid_file", `${file} has no spec.features`);
  return features.map(({ name, hotSize, pooling }) => ({ table: name, hotSize, pooling }));
}

async function readTensor(file: string, name: string): Promise<Float32Array> {
  const handle = await open(file);
  try {
    const { entries } = await readSafetensorsHeader(handle, file);
    const entry = entries.find((tensor) => tensor.name === name && tensor.dtype === "F32");
    if (entry === undefined) throw new EmbeddingError("invalid_file", `${file} has no F32 tensor ${name}`);
    const values = new Float32Array(entry.byteLength / 4);
    await handle.read(new Uint8Array(values.buffer), 0, entry.byteLength, entry.offset);
    return values;
  } finally {
    await handle.close();
  }
}
