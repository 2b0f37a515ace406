import { type Device, openDevice } from "@dlrm/accelerator";
import { type Bundle, readStableHlo } from "@dlrm/model";
import type { DenseNetworkRow } from "@dlrm/reporter";
import type { DenseNetworkTask } from "./dense-network-task.ts";
import { environmentPluginPath } from "./pjrt-plugin-path.ts";

/** A device that may run the dense network here. */
export interface Candidate {
  readonly title: string;
  readonly precision: DenseNetworkRow["precision"];
  readonly open: () => Promise<Device>;
}

/** onnxruntime and PJRT in each precision that they have on CPUs, onnxruntime in float32 first. */
export async function denseNetworkCandidates(bundle: Bundle, task: DenseNetworkTask): Promise<Candidate[]> {
  const { spec, paths } = bundle;
  const common = {
    buckets: [task.batch],
    numThreads: task.numThreads,
    inputs: [
      { name: "dense", width: [spec.denseFeatures] },
      { name: "pooled", width: [spec.features.length, spec.embeddingDim] },
    ],
    outputs: [{ name: "scores", width: [] }],
  };
  const onnxruntime = (precision: "float32" | "int8"): Candidate => ({
    title: "onnxruntime",
    precision,
    open: () => openDevice({ kind: "onnxruntime", modelPath: paths.onnx, precision, ...common }),
  });
  const candidates = [onnxruntime("float32"), onnxruntime("int8")];
  const pluginPath = pluginForCpus(task.device);
  if (pluginPath === undefined) return [...candidates, noPlugin];
  const network = await readStableHlo(bundle);
  const pjrt = (precision: "float32" | "bfloat16"): Candidate => ({
    title: "PJRT",
    precision,
    open: () => openDevice({ kind: "pjrt", pluginPath, precision, ...network, ...common }),
  });
  return [...candidates, pjrt("float32"), pjrt("bfloat16")];
}

/** One that was named: those that are found in Python's packages are for other hardware. */
function pluginForCpus(device: string | undefined): string | undefined {
  return device?.startsWith("pjrt:") === true ? device.slice("pjrt:".length) : environmentPluginPath();
}

const noPlugin: Candidate = {
  title: "PJRT",
  precision: "float32",
  open: () => Promise.reject(new Error("neither --device pjrt:PATH nor PJRT_PLUGIN_PATH names a plugin for CPUs")),
};
