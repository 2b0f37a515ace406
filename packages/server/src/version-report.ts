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

/** What `dlrm-serve --version` prints: versions, the gather kernel and the devices of this machine, a line each. */
export async function versionReport(): Promise<string> {
  const lines = [`dlrm-serve ${await packageVersion()}`, `node ${process.version}`];
  const dir = await mkdtemp(path.join(tmpdir(), "dlrm-probe-"));
  try {
    const bundle = await exportBundle({ spec: PROBE, seed: 1, dir: path.join(dir, "bundle") });
    lines.push(
      `gather kernel: ${await kernelLine(bundle.paths.tables)}`,
      `device onnxruntime: ${await onnxRuntimeLine(bundle.paths.onnx)}`,
      "device simulated: available",
      `device pjrt: ${await pjrtLine()}`,
    );
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return lines.join("\n");
}

async function kernelLine(safetensors: string): Promise<string> {
  try {
    const store = await openEmbeddingStore({ safetensors });
    const { name, whyNotNative } = store.kernel;
    store.close();
    return whyNotNative === undefined ? name : `${name} (not native: ${whyNotNative})`;
  } catch (error) {
    return `not available: ${messageOf(error)}`;
  }
}

async function onnxRuntimeLine(modelPath: string): Promise<string> {
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
