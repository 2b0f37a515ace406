import { readBundle } from "./bundle.ts";
import { openReference } from "./reference-model.ts";

/** Scores examples whose rows are looked up already. */
export interface EmbeddingScorer {
  /** Dense features of an example. */
  readonly denseFeatures: number;
  /** Scores, [batch], of dense features, [batch, denseFeatures], and pooled vectors, [batch, features × embeddingDim]. */
  score(dense: Float32Array, pooled: Float32Array, batch: number): Promise<Float64Array>;
  close(): Promise<void>;
}

/**
 * The dense network of the bundle in `bundleDir`, as `dlrm-embedding quantize --scorer @dlrm/model` takes it: plain float64
 * arithmetic, some dozens of examples a second for the presets with the full network.
 * @throws {ModelError} as `readBundle` and `openReference` do.
 */
export async function openEmbeddingScorer(bundleDir: string): Promise<EmbeddingScorer> {
  const bundle = await readBundle(bundleDir);
  const reference = await openReference(bundle);
  return {
    denseFeatures: bundle.spec.denseFeatures,
    score: (dense, pooled, batch) => reference.scorePooled({ batch, dense, pooled }, "network"),
    close: () => reference.close(),
  };
}
