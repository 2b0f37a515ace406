import { readFile } from "node:fs/promises";
import { findPjrtPlugin, type PjrtSpec } from "@dlrm/accelerator";
import { type Bundle, readTensors } from "@dlrm/model";
import { ServerError } from "./server-error.ts";
import type { PjrtDeviceName } from "./server-options.ts";

type ModelParts = Pick<PjrtSpec, "pluginPath" | "program" | "inputs" | "outputs" | "weights">;

const MODULE_SEPARATOR = "// -----\n";

/** The bundle's dense network as a PJRT device takes it: a program a bucket, and the weights in the order they name. */
export async function pjrtDeviceParts(bundle: Bundle, device: PjrtDeviceName): Promise<ModelParts> {
  const file = bundle.paths.stableHlo;
  const text = await readFile(file, "utf8");
  const names = /^\/\/ arguments: (.+)$/mu.exec(text)?.[1]?.split(" ") ?? [];
  if (names[0] !== "dense" || names[1] !== "pooled") {
    throw new ServerError("startup_failed", `${file}: no line "// arguments: dense pooled …" at its head`);
  }
  const weightNames = names.slice(2);
  const tensors = await readTensors(bundle.paths.dense, weightNames);
  const weights = weightNames.map((name) => tensors.get(name)?.data ?? new Float32Array());
  const programs = new Map<number, string>();
  for (const module of text.split(MODULE_SEPARATOR)) {
    const bucket = /^module @dense_b(\d+)\b/mu.exec(module)?.[1];
    if (bucket !== undefined) programs.set(Number(bucket), module);
  }
  const { spec } = bundle;
  return {
    pluginPath: device === "pjrt" ? (await findPjrtPlugin()).pluginPath : device.slice("pjrt:".length),
    program: (bucket) => {
      const program = programs.get(bucket);
      if (program !== undefined) return program;
      throw new ServerError("startup_failed", `${file}: no module of batch size ${bucket}`);
    },
    inputs: [
      { name: "dense", width: [spec.denseFeatures] },
      { name: "pooled", width: [spec.features.length, spec.embeddingDim] },
    ],
    outputs: [{ name: "scores", width: [] }],
    weights,
  };
}
