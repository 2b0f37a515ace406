import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { DeviceSpec, SharedFloat32Array } from "@dlrm/accelerator";
import { encodeOnnx, rankingModel, type FixtureModel } from "./onnx-fixture.ts";

/** Every device of these tests computes scores = sigmoid(W · dense + V · pooled), dense 4 wide and pooled 6. */
export const W: Float32Array = Float32Array.of(0.5, -0.25, 0.125, 1);
export const V: Float32Array = Float32Array.of(-1, 0.75, 0.5, -0.5, 0.25, 2);

export const BUCKETS: readonly number[] = [1, 2, 8];

export function shared(length: number): SharedFloat32Array {
  return new Float32Array(new SharedArrayBuffer(length * 4));
}

export interface Batch {
  readonly inputs: { readonly dense: SharedFloat32Array; readonly pooled: SharedFloat32Array };
  readonly outputs: { readonly scores: SharedFloat32Array };
}

/** A batch whose numbers depend on `seed`, and whose scores are none yet (-1). */
export function makeBatch(rows: number, seed = 0): Batch {
  const dense = shared(rows * 4).map((_, i) => Math.sin(seed + i));
  const pooled = shared(rows * 6).map((_, i) => Math.cos(seed * 3 + i));
  return {
    inputs: { dense: copyShared(dense), pooled: copyShared(pooled) },
    outputs: { scores: shared(rows).fill(-1) },
  };
}

function copyShared(values: Float32Array): SharedFloat32Array {
  const copy = shared(values.length);
  copy.set(values);
  return copy;
}

/** The formula, in float64. */
export function expectedScores({ inputs: { dense, pooled } }: Batch, rows: number, v: Float32Array = V): number[] {
  return Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let i = 0; i < 4; i++) sum += W[i]! * dense[row * 4 + i]!;
    for (let i = 0; i < 6; i++) sum += v[i]! * pooled[row * 6 + i]!;
    return 1 / (1 + Math.exp(-sum));
  });
}

export function maxDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) throw new Error(`${actual.length} numbers, expected ${expected.length}`);
  let worst = 0;
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    // NaN must not look like agreement.
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

/** A folder for ONNX files that is removed at the end. */
export class ModelFolder {
  readonly dir: string;

  static async create(): Promise<ModelFolder> {
    return new ModelFolder(await mkdtemp(path.join(tmpdir(), "dlrm-accelerator-")));
  }

  private constructor(dir: string) {
    this.dir = dir;
  }

  async write(name: string, content: FixtureModel | string): Promise<string> {
    const file = path.join(this.dir, name);
    await writeFile(file, typeof content === "string" ? content : encodeOnnx(content));
    return file;
  }

  async remove(): Promise<void> {
    await rm(this.dir, { recursive: true });
  }
}

export function fixtureModel(): FixtureModel {
  return rankingModel(Float32Array.of(...W, ...V));
}

/** The same network behind each kind of device. */
export function specOf(kind: Exclude<DeviceSpec["kind"], "pjrt">, modelPath: string): DeviceSpec {
  if (kind === "onnxruntime") return { kind, modelPath, buckets: BUCKETS, numThreads: 1 };
  if (kind === "simulated") return { kind, w: W, v: V, buckets: BUCKETS, fixedMicros: 0, microsPerExample: 0 };
  return {
    kind,
    buckets: BUCKETS,
    inputs: [
      { name: "dense", width: [4] },
      { name: "pooled", width: [2, 3] },
    ],
    outputs: [{ name: "scores", width: [] }],
    run: (bucket, inputs, outputs) => {
      const batch = { inputs, outputs } as unknown as Batch;
      batch.outputs.scores.set(expectedScores(batch, bucket));
    },
  };
}
