import { statfs, writeFile } from "node:fs/promises";
import path from "node:path";
import { denseTensors, makeDenseTensor } from "./dense-weights.ts";
import type { ExportProgress } from "./export-bundle.ts";
import { HashingFileWriter } from "./hashing-file-writer.ts";
import { BUNDLE_FILES, formatManifest, MANIFEST_FILE, type FileRecord } from "./manifest.ts";
import { ModelError } from "./model-error.ts";
import type { ModelSpec } from "./model-spec.ts";
import { onnxModel } from "./onnx.ts";
import { layoutSafetensors, type SafetensorsLayout } from "./safetensors-header.ts";
import type { Tensor } from "./safetensors-reader.ts";
import { emitStableHlo } from "./stablehlo.ts";
import { tablesLayout, writeTables } from "./write-tables.ts";

/** All that decides what a bundle holds. */
export interface BundleContent {
  readonly spec: ModelSpec;
  readonly seed: number;
  readonly version: string;
  readonly buckets: readonly number[];
}

/** Writes the files of a bundle into an empty directory, `model.json` last. */
export async function writeBundleFiles(
  dir: string,
  content: BundleContent,
  onProgress: ((progress: ExportProgress) => void) | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { spec, seed, version, buckets } = content;
  const tables = tablesLayout(spec);
  const dense = layoutSafetensors(denseTensors(spec), Float32Array.BYTES_PER_ELEMENT);
  // Made at once: with the tables, which are not, they would not fit in memory, without them they do.
  const weights = new Map(denseTensors(spec).map((tensor) => [tensor.name, makeDenseTensor(tensor, seed)]));
  const onnx = onnxModel(spec, weights);
  const stableHlo = new TextEncoder().encode(emitStableHlo(spec, { buckets }));
  const totalBytes = tables.fileBytes + dense.fileBytes + onnx.bytes + stableHlo.byteLength;
  await requireSpace(dir, totalBytes);

  const files: Record<string, FileRecord> = {};
  let writtenBytes = 0;
  await write(BUNDLE_FILES.tables, (writer) => writeTables(spec, seed, tables, writer, signal));
  await write(BUNDLE_FILES.dense, (writer) => writeDense(dense, weights, writer, signal));
  await write(BUNDLE_FILES.onnx, (writer) => writeChunks(onnx.chunks, writer, signal));
  await write(BUNDLE_FILES.stableHlo, (writer) => writer.write(stableHlo));
  const manifest = formatManifest({ formatVersion: 1, name: spec.name, version, seed, spec, buckets, files });
  await writeFile(path.join(dir, MANIFEST_FILE), manifest, { flush: true });

  async function write(file: string, fill: (writer: HashingFileWriter) => Promise<void>): Promise<void> {
    const writer = await HashingFileWriter.create(path.join(dir, file), (bytes) => {
      writtenBytes += bytes;
      onProgress?.({ file, writtenBytes, totalBytes });
    });
    try {
      await fill(writer);
      files[file] = await writer.finish();
    } finally {
      await writer.close();
    }
    signal?.throwIfAborted();
  }
}

async function writeDense(
  layout: SafetensorsLayout,
  weights: ReadonlyMap<string, Tensor>,
  writer: HashingFileWriter,
  signal: AbortSignal | undefined,
): Promise<void> {
  await writer.write(layout.header);
  // Float32 tensors in a row are all aligned to 4 bytes, so that there is no padding between them.
  for (const { name } of layout.tensors) {
    signal?.throwIfAborted();
    await writer.write(new Uint8Array((weights.get(name) as Tensor).data.buffer));
  }
}

/** Below this, chunks are joined: a write has a price of its own. */
const JOIN_BELOW_BYTES = 64 << 10;

async function writeChunks(
  chunks: readonly Uint8Array[],
  writer: HashingFileWriter,
  signal: AbortSignal | undefined,
): Promise<void> {
  let small: Uint8Array[] = [];
  for (const chunk of chunks) {
    signal?.throwIfAborted();
    if (chunk.byteLength < JOIN_BELOW_BYTES) {
      small.push(chunk);
      continue;
    }
    await writer.write(Buffer.concat(small));
    small = [];
    await writer.write(chunk);
  }
  await writer.write(Buffer.concat(small));
}

async function requireSpace(dir: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dir);
  // Some file systems report no sizes at all.
  if (bsize > 0 && bavail * bsize < bytes && bavail > 0) {
    const gigabytes = (value: number): string => `${(value / 1e9).toFixed(1)} GB`;
    throw new ModelError(
      "no_space",
      `the bundle needs ${gigabytes(bytes)}, the file system of ${path.dirname(dir)} has ${gigabytes(bavail * bsize)} left`,
    );
  }
}
