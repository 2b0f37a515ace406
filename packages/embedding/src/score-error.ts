import { open, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { EmbeddingError } from "./embedding-error.ts";
import { openEmbeddingStore } from "./embedding-store.ts";
import { loadNativeBinding } from "./native-binding.ts";
import type { PlanFeature } from "./plan-layout.ts";
import { readSafetensorsHeader } from "./safetensors.ts";

/** How far scores move when a bundle's tables are replaced by converted ones. */
export interface ScoreError {
  readonly examples: number;
  readonly max: number;
  readonly mean: number;
}

/** What turns pooled vectors into scores. */
export interface EmbeddingScorer {
  /** Dense features of an example. */
  readonly denseFeatures: number;
  /** Scores, `[batch]`, of dense features, `[batch, denseFeatures]`, and pooled vectors, `[batch, outputWidth]`. */
  score(dense: Float32Array, pooled: Float32Array, batch: number): ArrayLike<number> | Promise<ArrayLike<number>>;
  close?(): void | Promise<void>;
}

/** What a module must export to be one that scores: given the bundle's folder, its scorer. */
interface ScorerModule {
  readonly openEmbeddingScorer: (bundleDir: string) => EmbeddingScorer | Promise<EmbeddingScorer>;
}

/**
 * The scorer of a module, which exports `openEmbeddingScorer(bundleDir)`. `module` is a path or a package, as an import in the current
 * directory would name it.
 */
export async function openScorer(module: string, bundleDir: string): Promise<EmbeddingScorer> {
  let exported: Partial<ScorerModule>;
  try {
    const file = createRequire(path.resolve("scorer.js")).resolve(module);
    exported = (await import(pathToFileURL(file).href)) as Partial<ScorerModule>;
  } catch (error) {
    throw EmbeddingError.from(error, "invalid_argument", `cannot load scorer ${module}`);
  }
  if (typeof exported.openEmbeddingScorer !== "function") {
    throw new EmbeddingError("invalid_argument", `scorer ${module} exports no function openEmbeddingScorer`);
  }
  return exported.openEmbeddingScorer(bundleDir);
}

/** A bundle's simulated network, sigmoid(v · pooled), which has no use for dense features. */
export async function openSimulatedScorer(bundleDir: string): Promise<EmbeddingScorer> {
  const weights = await readTensor(path.join(bundleDir, "dense.safetensors"), "simulated.v");
  return {
    denseFeatures: 0,
    score: (_, pooled, batch) => {
      if (pooled.length !== batch * weights.length) {
        throw new EmbeddingError(
          "invalid_file",
          `simulated.v has ${weights.length} weights, expected ${pooled.length / batch}`,
        );
      }
      return Float64Array.from({ length: batch }, (__, b) => {
        let logit = 0;
        for (const [d, weight] of weights.entries()) logit += (pooled[b * weights.length + d] ?? 0) * weight;
        return 1 / (1 + Math.exp(-logit));
      });
    },
  };
}

/** Examples gathered at a time. */
const BATCH = 64;

/** Scores random examples (uniform ids, dense features in 0 … 1) with a bundle's tables and with converted ones, and compares them. */
export async function measureScoreError(
  bundleDir: string,
  converted: string,
  examples: number,
  scorer: EmbeddingScorer,
): Promise<ScoreError> {
  const features = await readFeatures(path.join(bundleDir, "model.json"));
  // Mapped where that can be: only the rows of these examples are read.
  const mode = "binding" in loadNativeBinding() && !process.env["DLRM_EMBEDDING_KERNEL"] ? "mmap" : "memory";
  const before = await openEmbeddingStore({ safetensors: path.join(bundleDir, "tables.safetensors") }, { mode });
  const after = await openEmbeddingStore({ safetensors: converted }, { mode });
  const rows = features.map(({ table }) => before.tables.find(({ name }) => name === table)?.rows ?? 1);
  const plans = [before.plan(features), after.plan(features)] as const;
  const { outputWidth, idsPerExample } = plans[0];
  const ids = new Int32Array(BATCH * idsPerExample);
  const dense = new Float32Array(BATCH * scorer.denseFeatures);
  let state = 1;
  const random = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  let max = 0;
  let sum = 0;
  for (let done = 0; done < examples; done += BATCH) {
    const batch = Math.min(BATCH, examples - done);
    let at = 0;
    for (const [feature, { hotSize }] of features.entries()) {
      for (let i = 0; i < batch * hotSize; i++) ids[at++] = Math.floor(random() * (rows[feature] ?? 1));
    }
    for (const i of dense.keys()) dense[i] = random();
    const scores: ArrayLike<number>[] = [];
    for (const plan of plans) {
      const pooled = new Float32Array(batch * outputWidth);
      plan.gather(ids, batch, pooled, 0);
      scores.push(await scorer.score(dense.subarray(0, batch * scorer.denseFeatures), pooled, batch));
    }
    for (let b = 0; b < batch; b++) {
      const difference = Math.abs((scores[0]?.[b] ?? Number.NaN) - (scores[1]?.[b] ?? Number.NaN));
      max = Math.max(max, difference);
      sum += difference;
    }
  }
  before.close();
  after.close();
  return { examples, max, mean: sum / examples };
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
