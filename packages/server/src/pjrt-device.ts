import { findPjrtPlugin, type PjrtSpec } from "@dlrm/accelerator";
import { type Bundle, readStableHlo } from "@dlrm/model";
import type { PjrtDeviceName } from "./server-options.ts";

type ModelParts = Pick<PjrtSpec, "pluginPath" | "program" | "inputs" | "outputs" | "weights">;

/** The bundle's dense network as a PJRT device takes it. */
export async function pjrtDeviceParts(bundle: Bundle, device: PjrtDeviceName): Promise<ModelParts> {
  const { spec } = bundle;
  return {
    pluginPath: device === "pjrt" ? (await findPjrtPlugin()).pluginPath : device.slice("pjrt:".length),
    ...(await readStableHlo(bundle)),
    inputs: [
      { name: "dense", width: [spec.denseFeatures] },
      { name: "pooled", width: [spec.features.length, spec.embeddingDim] },
    ],
    outputs: [{ name: "scores", width: [] }],
  };
}
