import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import {
  BUNDLE_FILES,
  DIGEST_PROBLEM,
  MANIFEST_FILE,
  manifestDigestMatches,
  parseManifest,
  type Manifest,
} from "./manifest.ts";
import { ModelError } from "./model-error.ts";
import type { ModelSpec } from "./model-spec.ts";

/** A model on disk. */
export interface Bundle {
  /** Absolute path of the directory. */
  readonly dir: string;
  readonly name: string;
  readonly version: string;
  /** The seed that made the weights. */
  readonly seed: number;
  readonly spec: ModelSpec;
  /** Batch sizes that `stableHlo` has a module for, ascending. */
  readonly buckets: readonly number[];
  /** Absolute paths of the files. */
  readonly paths: {
    /** One F32 tensor [vocabularySize, embeddingDim] a feature, under its name, at a multiple of 4096 bytes. */
    readonly tables: string;
    /** Weights of the dense network, [inputs, outputs], and of the simulated accelerator. */
    readonly dense: string;
    /** The dense network with its weights, for any batch size. */
    readonly onnx: string;
    /** The dense network as StableHLO text, a module a bucket, weights as arguments. */
    readonly stableHlo: string;
  };
}

/**
 * Opens a bundle: reads and validates `model.json`, and checks that the other files have the size it says. Contents are
 * checked by `verifyBundle`.
 * @throws {ModelError} `invalid_bundle`, naming the directory and everything that is wrong.
 */
export async function readBundle(dir: string): Promise<Bundle> {
  return (await openBundle(dir)).bundle;
}

/** {@link readBundle} with the manifest and its text. */
export async function openBundle(
  dir: string,
): Promise<{ readonly bundle: Bundle; readonly manifest: Manifest; readonly text: string }> {
  const root = path.resolve(dir);
  const text = await readManifestText(root);
  let manifest: Manifest;
  try {
    manifest = parseManifest(text);
  } catch (cause) {
    throw new ModelError("invalid_bundle", `${root}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
  const problems: string[] = [];
  for (const [file, { bytes }] of Object.entries(manifest.files)) {
    const found = await sizeOf(path.join(root, file));
    if (found !== bytes)
      problems.push(
        `${file}: expected ${bytes} bytes, ${found === undefined ? "there is no such file" : `got ${found}`}`,
      );
  }
  // It may be the sizes that are wrong, not the files.
  if (problems.length > 0 && !manifestDigestMatches(text, manifest.digest)) problems.unshift(DIGEST_PROBLEM);
  if (problems.length > 0) throw new ModelError("invalid_bundle", `${root}: ${problems.join("; ")}`);
  const { name, version, seed, spec, buckets } = manifest;
  return { bundle: { dir: root, name, version, seed, spec, buckets, paths: bundlePaths(root) }, manifest, text };
}

function bundlePaths(dir: string): Bundle["paths"] {
  return {
    tables: path.join(dir, BUNDLE_FILES.tables),
    dense: path.join(dir, BUNDLE_FILES.dense),
    onnx: path.join(dir, BUNDLE_FILES.onnx),
    stableHlo: path.join(dir, BUNDLE_FILES.stableHlo),
  };
}

async function readManifestText(root: string): Promise<string> {
  try {
    return await readFile(path.join(root, MANIFEST_FILE), "utf8");
  } catch (cause) {
    throw new ModelError(
      "invalid_bundle",
      `${root} is not a bundle: ${MANIFEST_FILE} cannot be read (${String(cause)})`,
      { cause },
    );
  }
}

/** Bytes of a regular file; undefined when there is none. */
async function sizeOf(file: string): Promise<number | undefined> {
  try {
    const found = await stat(file);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

export function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ENOTDIR";
}
