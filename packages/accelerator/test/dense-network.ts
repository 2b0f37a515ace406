import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import type { PjrtSpec } from "@dlrm/accelerator";
import { allocateTensor } from "../src/allocate-tensor.ts";
import type { SharedFloat32Array } from "../src/device.ts";

// The dense network of DLRM-DCNv2 as @dlrm/model emits it, and a plain float64 forward of it written here.

const DENSE = 13;
const [FEATURES, DIM] = [26, 128];

export const DENSE_INPUTS: PjrtSpec["inputs"] = [
  { name: "dense", width: [DENSE] },
  { name: "pooled", width: [FEATURES, DIM] },
];
export const DENSE_OUTPUTS: PjrtSpec["outputs"] = [{ name: "scores", width: [] }];

interface Weight {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

export interface DenseNetwork {
  readonly onnxPath: string;
  readonly safetensorsPath: string;
  /** StableHLO text by bucket. */
  readonly programs: ReadonlyMap<number, string>;
  /** In the order in which programs take them. */
  readonly weightNames: readonly string[];
  readonly weights: ReadonlyMap<string, Weight>;
}

/** Makes the bundle in `folder`, which must not exist. */
export async function exportDenseNetwork(folder: string, buckets: readonly number[]): Promise<DenseNetwork> {
  const cli = path.join(import.meta.dirname, "../../model/src/cli.ts");
  const bundle = ["--preset", "dcnv2-smoke", "--max-vocab-size", "3", "--out", folder, "--buckets", buckets.join(",")];
  const args = ["--conditions=@dlrm/source", cli, "export", "--quiet", ...bundle];
  await promisify(execFile)(process.execPath, args);
  const text = await readFile(path.join(folder, "dense.stablehlo.mlir"), "utf8");
  const safetensorsPath = path.join(folder, "dense.safetensors");
  return {
    onnxPath: path.join(folder, "dense.onnx"),
    safetensorsPath,
    programs: new Map(
      text.split("// -----\n").map((module) => [Number(/module @dense_b(\d+)/.exec(module)![1]), module]),
    ),
    weightNames: /^\/\/ arguments: dense pooled (.*)$/m.exec(text)![1]!.split(" "),
    weights: readWeights(await readFile(safetensorsPath)),
  };
}

function readWeights(file: Buffer): Map<string, Weight> {
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString("utf8", 8, 8 + headerBytes)) as Record<
    string,
    { shape: number[]; data_offsets: [number, number] }
  >;
  const found = new Map<string, Weight>();
  for (const [name, { shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name.startsWith("__")) continue;
    const [from, to] = offsets.map((offset) => 8 + headerBytes + offset) as [number, number];
    found.set(name, { shape, data: new Float32Array(new Uint8Array(file.subarray(from, to)).buffer) });
  }
  return found;
}

/** The same examples every time. */
export class Examples {
  readonly count: number;
  readonly #dense: Float32Array;
  readonly #pooled: Float32Array;

  constructor(count: number) {
    this.count = count;
    this.#dense = uniform(count * DENSE, 1);
    // As wide as sums of bags of these models' tables, whose rows are uniform in ±0.5 / √hotSize.
    this.#pooled = uniform(count * FEATURES * DIM, 2).map((value) => value / 2);
  }

  /** A batch whose row i is example i modulo their count. */
  batch(rows: number): { readonly dense: SharedFloat32Array; readonly pooled: SharedFloat32Array } {
    const repeated = (examples: Float32Array, width: number): SharedFloat32Array => {
      const tensor = allocateTensor(rows * width);
      for (let at = 0; at < tensor.length; at += examples.length) {
        tensor.set(examples.subarray(0, Math.min(examples.length, tensor.length - at)), at);
      }
      return tensor;
    };
    return { dense: repeated(this.#dense, DENSE), pooled: repeated(this.#pooled, FEATURES * DIM) };
  }

  /** The scores, in float64. */
  scores({ weights }: DenseNetwork): number[] {
    const linear = (x: Float64Array, name: string, bias?: string): Float64Array => {
      const { shape, data } = weights.get(name)!;
      const [inputs, outputs] = shape as [number, number];
      const y = new Float64Array(outputs);
      if (bias !== undefined) y.set(weights.get(bias)!.data);
      for (let i = 0, at = 0; i < inputs; i++) for (let o = 0; o < outputs; o++, at++) y[o]! += x[i]! * data[at]!;
      return y;
    };
    const relu = (x: Float64Array): Float64Array => x.map((value) => Math.max(0, value));
    return Array.from({ length: this.count }, (_, example) => {
      let z: Float64Array = Float64Array.from(this.#dense.subarray(example * DENSE, (example + 1) * DENSE));
      for (let i = 0; weights.has(`bottom_mlp.${i}.weight`); i++) {
        z = relu(linear(z, `bottom_mlp.${i}.weight`, `bottom_mlp.${i}.bias`));
      }
      const pooled = this.#pooled.subarray(example * FEATURES * DIM, (example + 1) * FEATURES * DIM);
      const x0 = Float64Array.from([...z, ...pooled]);
      let x: Float64Array = x0;
      for (let i = 0; weights.has(`cross.${i}.v`); i++) {
        const crossed = linear(linear(x, `cross.${i}.v`), `cross.${i}.u`, `cross.${i}.bias`);
        x = x.map((value, at) => x0[at]! * crossed[at]! + value);
      }
      for (let i = 0; weights.has(`top_mlp.${i}.weight`); i++) {
        x = linear(i > 0 ? relu(x) : x, `top_mlp.${i}.weight`, `top_mlp.${i}.bias`);
      }
      return 1 / (1 + Math.exp(-x[0]!));
    });
  }
}

/** Numbers in ±1. */
function uniform(length: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}
