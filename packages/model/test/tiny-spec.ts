import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import type { ModelSpec } from "../src/model-spec.ts";

/** A model of a few kilobytes that has everything: odd widths, bags of several ids, a table of one row. */
export const TINY_SPEC: ModelSpec = {
  name: "tiny",
  embeddingDim: 5,
  denseFeatures: 3,
  features: [
    { name: "country", vocabularySize: 7, hotSize: 1, pooling: "sum" },
    { name: "clicks", vocabularySize: 1500, hotSize: 4, pooling: "sum" },
    { name: "constant", vocabularySize: 1, hotSize: 2, pooling: "sum" },
  ],
  denseNetwork: { bottomMlp: [6, 5], crossLayers: 2, crossProjection: 4, topMlp: [9, 7, 1] },
};

/** An empty directory that is deleted when the test has finished. */
export async function temporaryDirectory(): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "dlrm-model-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** Inputs that are a function of the seed: ids over all rows, dense features in [0, 1). */
export function randomInput(
  spec: ModelSpec,
  batch: number,
  seed: number,
): { batch: number; dense: Float32Array; ids: Int32Array[] } {
  // xorshift32: any generator that is not the package's own.
  let state = seed * 2 + 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  return {
    batch,
    dense: Float32Array.from({ length: batch * spec.denseFeatures }, next),
    ids: spec.features.map(({ vocabularySize, hotSize }) =>
      Int32Array.from({ length: batch * hotSize }, () => Math.floor(next() * vocabularySize)),
    ),
  };
}
