import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { openDevice } from "@dlrm/accelerator";
import { openEmbeddingStore } from "@dlrm/embedding";
import { exportBundle, type ModelSpec } from "@dlrm/model";
import { deviceAvailability } from "./device-availability.ts";

/** The smallest model that takes the whole way: what is reported has been tried, not looked up. */
const PROBE: ModelSpec = {
  name: "probe",
  embeddingDim: 4,
  denseFeatures: 1,
  features: [{ name: "sparse_0", vocabularySize: 1, hotSize: 1, pooling: "sum" }],
  denseNetwork: { bottomMlp: [4], crossLayers: 0, crossProjection: 1, topMlp: [1] },
};

/** This package's version. */
async function packageVersion(): Promise<string> {
  const manifest = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  return manifest.version;
}

async function pjrtLine(): Promise<string> {
  const found = await deviceAvailability("pjrt");
  return found.available ? "available" : `not available: ${found.missing.split("\n")[0]}`;
}

/**
 * What `dlrm-serve --version` prints: versions, the gather kernel and the devices of this machine, a line each. A model is
 * written to `tempDir` and run; where that cannot be, as where it is full, the report says so.
 */
export async function versionReport(tempDir: string = tmpdir()): Promise<string> {
  return [
    `dlrm-serve ${await packageVersion()}`,
    `node ${process.version}`,
    `gather kernel: ${await kernelLine()}`,
    `device onnxruntime: ${await onnxRuntimeLine(tempDir)}`,
    "device simulated: available",
    `device pjrt: ${await pjrtLine()}`,
  ].join("\n");
}

async function kernelLine(): Promise<string> {
  try {
    const store = await openEmbeddingStore({ rows: { row: { dim: 4, data: new Float32Array(4) } } });
    const { name, whyNotNative } = store.kernel;
    store.close();
    return whyNotNative === undefined ? name : `${name} (not native: ${whyNotNative})`;
  } catch (error) {
    return `not available: ${messageOf(error)}`;
  }
}

async function onnxRuntimeLine(tempDir: string): Promise<string> {
  let dir: string | undefined;
  try {
    dir = await mkdtemp(path.join(tempDir, "dlrm-probe-"));
    const { paths } = await exportBundle({ spec: PROBE, seed: 1, dir: path.join(dir, "bundle") });
    return await tryModel(paths.onnx);
  } catch (error) {
    const found = await deviceAvailability("onnxruntime");
    return found.available
      ? `available, not tried with a model: ${messageOf(error)}`
      : `not available: ${found.missing}`;
  } finally {
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  }
}

/** Where the runtime fails, that is the answer, and nothing thrown. */
async function tryModel(modelPath: string): Promise<string> {
  try {
    const device = await openDevice({ kind: "onnxruntime", modelPath, buckets: [1], numThreads: 1 });
    const { name } = device;
    await device.close();
    return `available, ${name}`;
  } catch (error) {
    return `not available: ${messageOf(error)}`;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
