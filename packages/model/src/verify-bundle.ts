import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import path from "node:path";
import { openBundle, type Bundle } from "./bundle.ts";
import { denseTensors } from "./dense-weights.ts";
import { BUNDLE_FILES, DIGEST_PROBLEM, manifestDigestMatches, type Manifest } from "./manifest.ts";
import { ModelError } from "./model-error.ts";
import type { LayoutTensor, SafetensorsHeader } from "./safetensors-header.ts";
import { readSafetensorsHeader } from "./safetensors-reader.ts";

export interface VerifyOptions {
  /** Told as files are read; `totalBytes` is all there is to read. */
  readonly onProgress?:
    | ((progress: { readonly file: string; readonly readBytes: number; readonly totalBytes: number }) => void)
    | undefined;
  /** Ends the verification; its reason is thrown. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads every byte of a bundle: the hashes are those of `model.json`, `model.json` has its own digest, and the tensors of
 * both safetensors files have the names, types and shapes of the spec.
 * @throws {ModelError} `invalid_bundle` as `readBundle`; `corrupt_bundle` naming every file that is not right, and why.
 */
export async function verifyBundle(dir: string, options: VerifyOptions = {}): Promise<Bundle> {
  const opened = await openBundle(dir);
  const problems = await contentProblems(opened, { ...options, hashUpToBytes: Number.POSITIVE_INFINITY });
  if (problems.length > 0) throw new ModelError("corrupt_bundle", `${opened.bundle.dir}: ${problems.join("; ")}`);
  return opened.bundle;
}

/** What of a bundle's content is not right, one line each; larger files than `hashUpToBytes` are not hashed. */
export async function contentProblems(
  opened: { readonly bundle: Bundle; readonly manifest: Manifest; readonly text: string },
  options: VerifyOptions & { readonly hashUpToBytes: number },
): Promise<string[]> {
  const { bundle, manifest, text } = opened;
  const { hashUpToBytes, onProgress, signal } = options;
  const problems: string[] = [];
  if (!manifestDigestMatches(text, manifest.digest)) {
    problems.push(DIGEST_PROBLEM);
  }
  const hashed = Object.entries(manifest.files).filter(([, { bytes }]) => bytes <= hashUpToBytes);
  const totalBytes = hashed.reduce((sum, [, { bytes }]) => sum + bytes, 0);
  let readBytes = 0;
  for (const [file, { sha256 }] of hashed) {
    const found = await hashFile(path.join(bundle.dir, file), signal, (bytes) => {
      readBytes += bytes;
      onProgress?.({ file, readBytes, totalBytes });
    });
    if (found !== sha256) problems.push(`${file}: expected SHA-256 ${sha256}, got ${found}`);
  }
  const { features, embeddingDim } = bundle.spec;
  const tables = features.map(({ name, vocabularySize }) => ({ name, shape: [vocabularySize, embeddingDim] }));
  problems.push(...(await tensorProblems(bundle.paths.tables, BUNDLE_FILES.tables, tables)));
  problems.push(...(await tensorProblems(bundle.paths.dense, BUNDLE_FILES.dense, denseTensors(bundle.spec))));
  return problems;
}

async function hashFile(
  file: string,
  signal: AbortSignal | undefined,
  onRead: (bytes: number) => void,
): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file, { highWaterMark: 4 << 20, signal })) {
    hash.update(chunk as Buffer);
    onRead((chunk as Buffer).byteLength);
  }
  return hash.digest("hex");
}

async function tensorProblems(file: string, label: string, expected: readonly LayoutTensor[]): Promise<string[]> {
  let header: SafetensorsHeader;
  try {
    header = await readSafetensorsHeader(file);
  } catch (error) {
    if (error instanceof ModelError) return [`${label}: ${error.message}`];
    throw error;
  }
  const found = new Map(header.tensors.map((tensor) => [tensor.name, `${tensor.dtype} [${tensor.shape.join(", ")}]`]));
  const problems: string[] = [];
  for (const { name, shape } of expected) {
    const wanted = `F32 [${shape.join(", ")}]`;
    const got = found.get(name);
    if (got !== wanted) problems.push(`${label}: expected tensor ${name} ${wanted}, got ${got ?? "none"}`);
  }
  return problems;
}
