import path from "node:path";
import { bucketProblems, DEFAULT_BUCKETS } from "./buckets.ts";
import { readBundle, type Bundle } from "./bundle.ts";
import { seedProblems } from "./manifest.ts";
import { ModelError } from "./model-error.ts";
import { validateModelSpec, type ModelSpec } from "./model-spec.ts";
import { reusableBundle } from "./reusable-bundle.ts";
import { assertLittleEndian } from "./safetensors-reader.ts";
import { fillDirectory } from "./staging-directory.ts";
import { writeBundleFiles } from "./write-bundle-files.ts";

export interface ExportOptions {
  readonly spec: ModelSpec;
  /** Integer from 0 to 2³² - 1: the same seed makes the same bytes on every machine. Default 1. */
  readonly seed?: number | undefined;
  /** Directory to make. It must not exist, or be empty; its parents are made. */
  readonly dir: string;
  /** What `model.json` calls this version; default "1". */
  readonly version?: string | undefined;
  /** Batch sizes of the StableHLO modules, ascending; default the powers of two 1 … 4096. */
  readonly buckets?: readonly number[] | undefined;
  /**
   * What to do when `dir` holds something already: `refuse` (the default), or `reuse` a bundle of the same spec, seed,
   * version and buckets after a quick check (sizes, headers, hashes of files up to 128 MiB, a sample of every table's rows).
   * Something else at `dir` is refused in both cases.
   */
  readonly existing?: "refuse" | "reuse" | undefined;
  /** Told after every chunk (a few MiB) how far the export is. */
  readonly onProgress?: ((progress: ExportProgress) => void) | undefined;
  /** Ends the export: what was written is deleted and the signal's reason thrown. */
  readonly signal?: AbortSignal | undefined;
}

export interface ExportProgress {
  /** Name of the file that is being written. */
  readonly file: string;
  /** Bytes written, of all files together. */
  readonly writtenBytes: number;
  /** Bytes of all files of the complete bundle but `model.json`. */
  readonly totalBytes: number;
}

export interface ExportedBundle extends Bundle {
  /** Whether the bundle was there already. */
  readonly reused: boolean;
}

/**
 * Makes a bundle with seeded weights. It appears at `dir` complete and on the disk, or not at all. Memory is bounded by the
 * size of the dense network, whatever that of the tables.
 * @throws {ModelError} `invalid_spec`, `invalid_option`, `bundle_exists`, `no_space`; errors of files as Node throws them.
 */
export async function exportBundle(options: ExportOptions): Promise<ExportedBundle> {
  assertLittleEndian();
  const { seed = 1, version = "1", buckets = DEFAULT_BUCKETS, onProgress, signal } = options;
  const spec = validateModelSpec(options.spec);
  const problems = [...seedProblems(seed), ...bucketProblems(buckets)];
  if (version === "") problems.push("version: expected a text, got an empty one");
  if (problems.length > 0) throw new ModelError("invalid_option", problems.join("; "));
  signal?.throwIfAborted();
  const target = path.resolve(options.dir);
  const content = { spec, seed, version, buckets };
  if (options.existing === "reuse") {
    const bundle = await reusableBundle(target, content);
    if (bundle !== undefined) return { ...bundle, reused: true };
  }
  await fillDirectory(target, (dir) => writeBundleFiles(dir, content, onProgress, signal));
  return { ...(await readBundle(target)), reused: false };
}
