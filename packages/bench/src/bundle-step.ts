import { existsSync } from "node:fs";
import path from "node:path";
import { type Bundle, exportBundle, ModelError, presetSpec } from "@dlrm/model";
import { BenchError } from "./bench-error.ts";
import { bundleDir } from "./commands.ts";
import { requireFreeSpace } from "./free-space.ts";
import type { Progress } from "./progress.ts";
import type { BenchSettings } from "./settings.ts";

/** Room for all files of a bundle but its tables. */
const DENSE_BYTES = 100e6;

/** The bundle of the settings' model, made with progress if it isn't there yet. */
export async function prepareBundle(settings: BenchSettings, progress: Progress, signal: AbortSignal): Promise<Bundle> {
  const dir = bundleDir(settings);
  const spec = presetSpec(settings.preset, { maxVocabSize: settings.maxVocabSize });
  if (!existsSync(path.join(dir, "model.json"))) {
    const rows = spec.features.reduce((sum, feature) => sum + feature.vocabularySize, 0);
    requireFreeSpace(dir, rows * spec.embeddingDim * 4 + DENSE_BYTES, `the model ${settings.preset}`);
  }
  let shownPercent = -1;
  const bundle = await exportBundle({
    spec,
    dir,
    existing: "reuse",
    signal,
    onProgress: ({ file, writtenBytes, totalBytes }) => {
      const percent = Math.floor((writtenBytes / totalBytes) * 100);
      if (percent === shownPercent) return;
      // A log that is no terminal gets every tenth.
      if (Math.floor(percent / 10) > Math.floor(shownPercent / 10)) progress.note(`  export: ${percent} %`);
      shownPercent = percent;
      progress.update(`${file}: ${percent} % of ${(totalBytes / 2 ** 20).toFixed(0)} MiB`);
    },
  }).catch((cause: unknown): never => {
    if (!(cause instanceof ModelError) || cause.code !== "bundle_exists") throw cause;
    throw new BenchError("prepare_failed", `${cause.message}: remove that folder, and it is made anew`, { cause });
  });
  progress.note(`  ${bundle.reused ? "there already" : "made"}: ${dir}`);
  return bundle;
}
