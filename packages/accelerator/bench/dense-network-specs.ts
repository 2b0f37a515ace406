import type { OnnxRuntimeSpec, PjrtSpec } from "@dlrm/accelerator";
import { DENSE_INPUTS, DENSE_OUTPUTS, type DenseNetwork } from "../test/dense-network.ts";
import { PROGRAM_CACHE, TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";

/** A device that runs DLRM-DCNv2's dense network on one core. */
export interface DenseNetworkSpec {
  readonly title: string;
  readonly precision: "float32" | "bfloat16" | "int8";
  readonly spec: OnnxRuntimeSpec | PjrtSpec;
}

/** onnxruntime and PJRT in each precision they have, onnxruntime in float32 first; without PJRT where that is missing, which is said. */
export function denseNetworkSpecs(network: DenseNetwork, bucket: number): DenseNetworkSpec[] {
  const common = { buckets: [bucket], numThreads: 1, inputs: DENSE_INPUTS, outputs: DENSE_OUTPUTS };
  const onnx = { kind: "onnxruntime", modelPath: network.onnxPath, ...common } as const;
  const specs: DenseNetworkSpec[] = [
    { title: "onnxruntime", precision: "float32", spec: onnx },
    { title: "onnxruntime", precision: "int8", spec: { ...onnx, precision: "int8" } },
  ];
  const plugin = TEST_PLUGINS.at(-1)!;
  const missing = whatIsMissing(plugin);
  if (missing !== undefined) {
    console.error(`PJRT: not measured, needs ${missing}`);
    return specs;
  }
  const pjrt = {
    kind: "pjrt",
    pluginPath: plugin.pluginPath,
    program: (batch: number) => network.programs.get(batch)!,
    weights: network.weightNames.map((name) => network.weights.get(name)!.data),
    cacheDir: PROGRAM_CACHE,
    ...common,
  } as const;
  const title = `PJRT ${plugin.apiVersion}`;
  specs.push({ title, precision: "float32", spec: pjrt });
  specs.push({ title, precision: "bfloat16", spec: { ...pjrt, precision: "bfloat16" } });
  return specs;
}

/** The part of a figure's name that says which device it is of. */
export function figureName({ title, precision }: Omit<DenseNetworkSpec, "spec">): string {
  return `${title.toLowerCase().replaceAll(/[ .]/g, "_")}_${precision}`;
}
