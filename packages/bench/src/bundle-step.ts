import { type Bundle, exportBundle, presetSpec } from "@dlrm/model";
import { bundleDir } from "./commands.ts";
import type { Progress } from "./progress.ts";
import type { BenchSettings } from "./settings.ts";

/** The bundle of the settings' model, made with progress if it isn't there yet. */
export async function prepareBundle(settings: BenchSettings, progress: Progress, signal: AbortSignal): Promise<Bundle> {
  const dir = bundleDir(settings);
  let shownPercent = -1;
  const bundle = await exportBundle({
    spec: presetSpec(settings.preset, { maxVocabSize: settings.maxVocabSize }),
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
  });
  progress.note(`  ${bundle.reused ? "there already" : "made"}: ${dir}`);
  return bundle;
}
