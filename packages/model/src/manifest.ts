import { createHash } from "node:crypto";
import { bucketProblems } from "./buckets.ts";
import { ModelError } from "./model-error.ts";
import { modelSpecProblems, validateModelSpec, type ModelSpec } from "./model-spec.ts";

/** The files of a bundle besides {@link MANIFEST_FILE}. */
export const BUNDLE_FILES = {
  tables: "tables.safetensors",
  dense: "dense.safetensors",
  onnx: "dense.onnx",
  stableHlo: "dense.stablehlo.mlir",
} as const;

export const MANIFEST_FILE = "model.json";

/** Size and hash of a file of a bundle. */
export interface FileRecord {
  readonly bytes: number;
  /** 64 lower-case hexadecimal digits. */
  readonly sha256: string;
}

/** What `model.json` holds. */
export interface Manifest {
  readonly formatVersion: 1;
  readonly name: string;
  readonly version: string;
  readonly seed: number;
  readonly spec: ModelSpec;
  readonly buckets: readonly number[];
  readonly files: Readonly<Record<string, FileRecord>>;
  /** SHA-256 of the text of `model.json` with these 64 digits as zeros. */
  readonly digest?: string;
}

const HEX = /^[0-9a-f]{64}$/;
const NO_DIGEST = "0".repeat(64);
const MAX_SEED = 2 ** 32 - 1;

/** The text of `model.json`, with its digest. */
export function formatManifest(manifest: Omit<Manifest, "digest">): string {
  const text = `${JSON.stringify({ ...manifest, digest: NO_DIGEST }, undefined, 2)}\n`;
  const at = text.lastIndexOf(NO_DIGEST);
  return text.slice(0, at) + sha256(text) + text.slice(at + NO_DIGEST.length);
}

/** What is wrong with a `model.json` of which somebody has changed a byte. */
export const DIGEST_PROBLEM: string = `${MANIFEST_FILE}: its text does not have the SHA-256 that "digest" says`;

/** Whether the text of `model.json` is what its own digest says. */
export function manifestDigestMatches(text: string, digest: string | undefined): boolean {
  if (digest === undefined) return false;
  const at = text.lastIndexOf(digest);
  return at >= 0 && sha256(text.slice(0, at) + NO_DIGEST + text.slice(at + digest.length)) === digest;
}

/**
 * Parses the text of `model.json`.
 * @throws {ModelError} `invalid_bundle`, with every problem in the message.
 */
export function parseManifest(text: string): Manifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ModelError("invalid_bundle", `${MANIFEST_FILE} is not JSON: ${String(cause)}`, { cause });
  }
  const problems = manifestProblems(value);
  if (problems.length > 0) {
    const list = problems.map((line) => `- ${line}`).join("\n");
    throw new ModelError("invalid_bundle", `${MANIFEST_FILE} is not valid:\n${list}`);
  }
  const manifest = value as Manifest;
  return { ...manifest, spec: validateModelSpec(manifest.spec) };
}

function manifestProblems(value: unknown): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return ["expected an object"];
  const { formatVersion, name, version, seed, spec, buckets, files, digest } = value as Record<string, unknown>;
  // Another format may differ in everything, so its other problems would only mislead.
  if (formatVersion !== 1) return [`formatVersion: expected 1, got ${JSON.stringify(formatVersion)}`];
  const problems: string[] = [];
  for (const [field, text] of Object.entries({ name, version })) {
    if (typeof text !== "string" || text === "")
      problems.push(`${field}: expected a text, got ${JSON.stringify(text)}`);
  }
  problems.push(...seedProblems(seed));
  problems.push(...modelSpecProblems(spec).map((line) => `spec: ${line}`));
  problems.push(...bucketProblems(buckets));
  problems.push(...fileProblems(files));
  if (digest !== undefined && !(typeof digest === "string" && HEX.test(digest))) {
    problems.push(`digest: expected 64 hexadecimal digits, got ${JSON.stringify(digest)}`);
  }
  return problems;
}

export function seedProblems(seed: unknown): string[] {
  if (Number.isInteger(seed) && (seed as number) >= 0 && (seed as number) <= MAX_SEED) return [];
  return [`seed: expected an integer from 0 to ${MAX_SEED}, got ${JSON.stringify(seed)}`];
}

function fileProblems(files: unknown): string[] {
  if (typeof files !== "object" || files === null || Array.isArray(files)) return ["files: expected an object"];
  const problems: string[] = [];
  const known: readonly string[] = Object.values(BUNDLE_FILES);
  for (const name of known) {
    if (!Object.hasOwn(files, name)) problems.push(`files: ${name} is missing`);
  }
  for (const [name, record] of Object.entries(files)) {
    const at = `files[${JSON.stringify(name)}]`;
    if (!known.includes(name)) {
      problems.push(`${at}: unknown file, expected only ${known.join(", ")}`);
      continue;
    }
    const { bytes, sha256: hash } = (record ?? {}) as Record<string, unknown>;
    if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) {
      problems.push(`${at}.bytes: expected a size in bytes, got ${JSON.stringify(bytes)}`);
    }
    if (typeof hash !== "string" || !HEX.test(hash)) {
      problems.push(`${at}.sha256: expected 64 hexadecimal digits, got ${JSON.stringify(hash)}`);
    }
  }
  return problems;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
