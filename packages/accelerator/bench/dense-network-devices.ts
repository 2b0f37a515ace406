import { availableParallelism, tmpdir } from "node:os";
import { mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import { compareDevices, openDevice, type Device } from "@dlrm/accelerator";
import { Examples, exportDenseNetwork, type DenseNetwork } from "../test/dense-network.ts";
import { TEST_PLUGINS } from "../test/test-plugins.ts";
import { figure, median, type Figure } from "./figures.ts";
import { jaxPython } from "./jax-python.ts";
import { JaxNetwork } from "./jax-network.ts";
import { describeCpu } from "./dense-network-cpu.ts";
import { denseNetworkSpecs, figureName } from "./dense-network-specs.ts";
import { writeDenseNetworkTable, type DenseNetworkRow } from "./dense-network-table.ts";

// DLRM-DCNv2's dense network at a batch of 128 on one core: onnxruntime and PJRT in each precision, and jax.jit.

const BATCH = 128;
const ROUNDS = 5;
const CALLS = 4;
/** As many as the batch has rows: each score is compared. */
const EXAMPLES = new Examples(BATCH);

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

const ratios = (above: readonly number[], below: readonly number[]): number[] =>
  above.map((value, round) => value / below[round]!);

export async function denseNetworkFigures(): Promise<Figure[]> {
  const folder = await mkdtemp(path.join(tmpdir(), "dlrm-accelerator-network-"));
  try {
    const network = await exportDenseNetwork(path.join(folder, "bundle"), [BATCH]);
    const specs = denseNetworkSpecs(network, BATCH);
    const devices: Device[] = [];
    for (const { spec } of specs) devices.push(await openDevice(spec));
    const jax = await openJax(network);
    const jaxMicros: number[][] = jax.map(() => []);
    const compared = await compareDevices(devices, {
      bucket: BATCH,
      inputs: EXAMPLES.batch(BATCH),
      expected: { scores: EXAMPLES.scores(network) },
      rounds: ROUNDS,
      calls: CALLS,
      afterRound: async () => {
        for (const [i, other] of jax.entries()) jaxMicros[i]!.push(await other.micros(CALLS));
      },
    });
    const candidates = compared.map(({ precision, micros, maxAbsError: error }, i) => {
      return { title: specs[i]!.title, precision, micros, error: error! };
    });
    const figures: Figure[] = [];
    for (const candidate of candidates) {
      const name = `${figureName(candidate)}_b${BATCH}`;
      figures.push(figure(`${name}_micros`, "µs", candidate.micros));
      figures.push(figure(`${name}_max_abs_score_error`, "score", [candidate.error]));
    }
    const [exact] = candidates;
    const best = candidates.toSorted((a, b) => median(a.micros) - median(b.micros))[0]!;
    figures.push(figure("best_cpu_b128_vs_ort_f32", "ratio of throughputs", ratios(exact!.micros, best.micros)));
    const pjrt = candidates.find(({ title, precision }) => title.startsWith("PJRT") && precision === "float32");
    const [jaxHere] = jaxMicros;
    if (pjrt && jaxHere) {
      figures.push(figure("pjrt_b128_vs_jax", "ratio of call times", ratios(pjrt.micros, jaxHere)));
      const own = jaxMicros.at(-1)!;
      if (own !== jaxHere) {
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
    await Promise.all(devices.map((device) => device.close()));
    const file = await writeDenseNetworkTable(rows, BATCH, describeCpu());
    console.error(`written: ${file}`);
    return figures;
  } finally {
    await rm(folder, { recursive: true });
  }
}
