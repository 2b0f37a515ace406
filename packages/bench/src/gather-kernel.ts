import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { openEmbeddingStore } from "@dlrm/embedding";

export interface GatherKernel {
  readonly gatherKernel: string;
  readonly gatherWhyNotNative?: string;
}

/**
 * Which gather kernel the engine's arms use on this machine; asked of a store with one row. Nothing where that cannot be found
 * out, as where `tempDir` is full: it is no reason to fail.
 */
export async function describeGatherKernel(tempDir: string = tmpdir()): Promise<GatherKernel | Record<string, never>> {
  try {
    return await kernelOfOneRow(tempDir);
  } catch {
    return {};
  }
}

async function kernelOfOneRow(tempDir: string): Promise<GatherKernel> {
  const folder = await mkdtemp(path.join(tempDir, "dlrm-kernel-"));
  try {
    const file = path.join(folder, "row.safetensors");
    await writeFile(file, oneRow());
    const store = await openEmbeddingStore({ safetensors: file });
    const { name, whyNotNative } = store.kernel;
    store.close();
    return { gatherKernel: name, ...(whyNotNative === undefined ? {} : { gatherWhyNotNative: whyNotNative }) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A safetensors file with one float32 table [1, 128] of zeros that starts at byte 4096. */
function oneRow(): Buffer {
  const rowBytes = 128 * 4;
  const header = JSON.stringify({ row: { dtype: "F32", shape: [1, 128], data_offsets: [0, rowBytes] } });
  const file = Buffer.alloc(4096 + rowBytes);
  file.writeBigUInt64LE(BigInt(4096 - 8));
  file.fill(" ", 8, 4096);
  file.write(header, 8);
  return file;
}
