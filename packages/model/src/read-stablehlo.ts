import { readFile } from "node:fs/promises";
import type { Bundle } from "./bundle.ts";
import { ModelError } from "./model-error.ts";
import { readTensors } from "./safetensors-reader.ts";
import { MODULE_SEPARATOR } from "./stablehlo.ts";

/** A bundle's dense network for a runtime that compiles StableHLO: its `main` takes dense, pooled, and then the weights. */
export interface StableHloNetwork {
  /**
   * The text of a bucket's module.
   * @throws {ModelError} `invalid_bundle` if the bundle has none of that batch size.
   */
  readonly program: (bucket: number) => string;
  /** Weights in the order of the arguments. */
  readonly weights: readonly Float32Array[];
}

/**
 * Splits a bundle's StableHLO into its modules and reads the weights that they name.
 * @throws {ModelError} `invalid_bundle` if the file does not name its arguments; as `readTensors` if a weight is missing.
 */
export async function readStableHlo({ paths }: Pick<Bundle, "paths">): Promise<StableHloNetwork> {
  const file = paths.stableHlo;
  const text = await readFile(file, "utf8");
  const [dense, pooled, ...names] = /^\/\/ arguments: (.+)$/mu.exec(text)?.[1]?.split(" ") ?? [];
  if (dense !== "dense" || pooled !== "pooled") {
    throw new ModelError("invalid_bundle", `${file}: no line "// arguments: dense pooled …" at its head`);
  }
  const programs = new Map<number, string>();
  for (const module of text.split(`${MODULE_SEPARATOR}\n`)) {
    const bucket = /^module @dense_b(\d+)\b/mu.exec(module)?.[1];
    if (bucket !== undefined) programs.set(Number(bucket), module);
  }
  const tensors = await readTensors(paths.dense, names);
  return {
    program: (bucket) => {
      const program = programs.get(bucket);
      if (program !== undefined) return program;
      const sizes = [...programs.keys()].join(", ");
      throw new ModelError("invalid_bundle", `${file}: no module of batch size ${bucket}, only of ${sizes}`);
    },
    weights: names.map((name) => tensors.get(name)?.data ?? new Float32Array()),
  };
}
