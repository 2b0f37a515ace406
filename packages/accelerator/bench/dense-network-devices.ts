import { availableParallelism, cpus, tmpdir } from "node:os";
import { mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { allocateTensor, openDevice, type Device, type DeviceSpec } from "@dlrm/accelerator";
import { DENSE_INPUTS, DENSE_OUTPUTS, Examples, exportDenseNetwork, type DenseNetwork } from "../test/dense-network.ts";
import { maxDifference } from "../test/open-devices.ts";
import { PROGRAM_CACHE, TEST_PLUGINS, whatIsMissing } from "../test/test-plugins.ts";
import { figure, median, type Figure } from "./figures.ts";
import { jaxPython } from "./jax-python.ts";
import { JaxNetwork } from "./jax-network.ts";
import { writeDenseNetworkTable, type DenseNetworkRow } from "./dense-network-table.ts";

// DLRM-DCNv2's dense network at a batch of 128 on one core: onnxruntime and PJRT in each precision, and jax.jit.

const BATCH = 128;
const ROUNDS = 5;
const CALLS = 4;
/** As many as the batch has rows: each score is compared. */
const EXAMPLES = new Examples(BATCH);

interface Candidate {
  readonly title: string;
  readonly precision: "float32" | "bfloat16" | "int8";
  readonly device: Device;
  readonly micros: number[];
  readonly error: number;
}

async function open(
  title: string,
  precision: Candidate["precision"],
  spec: DeviceSpec,
  wanted: readonly number[],
): Promise<Candidate> {
  const device = await openDevice(spec);
  const scores = allocateTensor(BATCH);
  await device.execute(BATCH, EXAMPLES.batch(BATCH), { scores });
  return { title, precision, device, micros: [], error: maxDifference(scores, wanted) };
}

async function openCandidates(network: DenseNetwork): Promise<Candidate[]> {
  const wanted = EXAMPLES.scores(network);
  const common = { buckets: [BATCH], numThreads: 1, inputs: DENSE_INPUTS, outputs: DENSE_OUTPUTS };
  const onnx = { kind: "onnxruntime", modelPath: network.onnxPath, ...common } as const;
  const candidates = [await open("onnxruntime", "float32", onnx, wanted)];
  candidates.push(await open("onnxruntime", "int8", { ...onnx, precision: "int8" }, wanted));
  const plugin = TEST_PLUGINS.at(-1)!;
  const missing = whatIsMissing(plugin);
  if (missing !== undefined) {
    console.error(`PJRT: not measured, needs ${missing}`);
    return candidates;
  }
  const pjrt = {
    kind: "pjrt",
    pluginPath: plugin.pluginPath,
    program: (bucket: number) => network.programs.get(bucket)!,
    weights: network.weightNames.map((name) => network.weights.get(name)!.data),
    cacheDir: PROGRAM_CACHE,
    ...common,
  } as const;
  const title = `PJRT ${plugin.apiVersion}`;
  candidates.push(await open(title, "float32", pjrt, wanted));
  candidates.push(await open(title, "bfloat16", { ...pjrt, precision: "bfloat16" }, wanted));
  return candidates;
}

/** JAX on the plugin that PJRT runs here, or else on its own; nothing without a Python that has it. */
async function openJax(network: DenseNetwork): Promise<JaxNetwork[]> {
  const python = jaxPython();
  if (python === undefined) {
    console.error("pjrt_b128_vs_jax: not measured, needs a Python with JAX (DLRM_PYTHON)");
    return [];
  }
  const last = String(availableParallelism() - 1);
  const common = { python, cpus: last, safetensorsPath: network.safetensorsPath, batch: BATCH };
  const opened = [await JaxNetwork.open(common)];
  try {
    opened.unshift(await JaxNetwork.open({ ...common, pluginPath: TEST_PLUGINS.at(-1)!.pluginPath }));
  } catch (error) {
    console.error(`JAX does not take the plugin (${(error as Error).message}): it is compared on its own CPU client`);
  }
  return opened;
}

async function measure(candidates: readonly Candidate[], jax: readonly JaxNetwork[]): Promise<number[][]> {
  const inputs = EXAMPLES.batch(BATCH);
  const scores = allocateTensor(BATCH);
  const jaxMicros: number[][] = jax.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const { device, micros } of candidates) {
      const began = performance.now();
      for (let i = 0; i < CALLS; i++) await device.execute(BATCH, inputs, { scores });
      micros.push(((performance.now() - began) * 1000) / CALLS);
    }
    for (const [i, network] of jax.entries()) jaxMicros[i]!.push(await network.micros(CALLS));
  }
  return jaxMicros;
}

const ratios = (above: readonly number[], below: readonly number[]): number[] =>
  above.map((value, round) => value / below[round]!);

export async function denseNetworkFigures(): Promise<Figure[]> {
  const folder = await mkdtemp(path.join(tmpdir(), "dlrm-accelerator-network-"));
  try {
    const network = await exportDenseNetwork(path.join(folder, "bundle"), [BATCH]);
    const candidates = await openCandidates(network);
    const jax = await openJax(network);
    const jaxMicros = await measure(candidates, jax);
    const figures: Figure[] = [];
    for (const { title, precision, micros, error } of candidates) {
      const name = `${title.toLowerCase().replaceAll(/[ .]/g, "_")}_${precision}_b${BATCH}`;
      figures.push(figure(`${name}_micros`, "µs", micros), figure(`${name}_max_abs_score_error`, "score", [error]));
    }
    const [exact] = candidates;
    const best = candidates.toSorted((a, b) => median(a.micros) - median(b.micros))[0]!;
    figures.push(figure("best_cpu_b128_vs_ort_f32", "ratio of throughputs", ratios(exact!.micros, best.micros)));
    const pjrt = candidates.find(({ title, precision }) => title.startsWith("PJRT") && precision === "float32");
    const [compared] = jaxMicros;
    if (pjrt && compared) {
      figures.push(figure("pjrt_b128_vs_jax", "ratio of call times", ratios(pjrt.micros, compared)));
      const own = jaxMicros.at(-1)!;
      if (own !== compared) {
        figures.push(figure("pjrt_b128_vs_jax_own_cpu", "ratio of call times", ratios(pjrt.micros, own)));
      }
    }
    const rows: DenseNetworkRow[] = [
      ...candidates.map(({ title, precision, micros, error }) => ({ title, precision, micros: median(micros), error })),
      ...jax.map(({ name }, i) => ({
        title: name,
        precision: "float32",
        micros: median(jaxMicros[i]!),
        error: undefined,
      })),
    ];
    for (const opened of jax) opened.close();
    await Promise.all(candidates.map(({ device }) => device.close()));
    const file = await writeDenseNetworkTable(rows, BATCH, cpus()[0]?.model ?? "an unknown CPU");
    console.error(`written: ${file}`);
    return figures;
  } finally {
    await rm(folder, { recursive: true });
  }
}
