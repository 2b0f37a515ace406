import { buildDenseNetwork, type DenseOperations } from "./dense-network.ts";
import { denseNetworkTensors } from "./dense-weights.ts";
import { DEFAULT_BUCKETS } from "./buckets.ts";
import type { ModelSpec } from "./model-spec.ts";

export interface StableHloOptions {
  /** Batch sizes to emit a module for; default the powers of two 1 … 4096. */
  readonly buckets?: readonly number[];
  /**
   * How exact matrix products are, where the hardware has a choice; default `HIGHEST`, float32 throughout. `DEFAULT` lets
   * a TPU use bfloat16 and a GPU TF32: faster, and further than 1e-4 from the reference.
   */
  readonly precision?: "DEFAULT" | "HIGH" | "HIGHEST";
}

/** The line between two modules of the text, MLIR's own convention. */
export const MODULE_SEPARATOR = "// -----";

/**
 * The dense network as StableHLO text: one module a bucket, separated by lines of `// -----`. Module `@dense_b<bucket>` has
 * `func.func public @main(dense [bucket, denseFeatures], pooled [bucket, features, embeddingDim], weights…)` that returns
 * the scores [bucket], all float32. The head comment's line `// arguments: …` names the arguments in order.
 */
export function emitStableHlo(spec: ModelSpec, options: StableHloOptions = {}): string {
  const { buckets = DEFAULT_BUCKETS, precision = "HIGHEST" } = options;
  const names = ["dense", "pooled", ...denseNetworkTensors(spec).map(({ name }) => name)];
  const head = [
    `// The dense network of ${spec.name}: one module a batch size, separated by lines of five dashes.`,
    `// arguments: ${names.join(" ")}`,
    "",
  ].join("\n");
  return head + buckets.map((bucket) => stableHloModule(spec, bucket, precision)).join(`${MODULE_SEPARATOR}\n`);
}

function stableHloModule(spec: ModelSpec, bucket: number, precision: string): string {
  const body = new ModuleBody(spec, bucket, precision);
  const scores = buildDenseNetwork(spec, body);
  const args = body.arguments.map(({ name, shape }) => `%${name}: ${type(shape)}`);
  return [
    `module @dense_b${bucket} {`,
    `  func.func public @main(${args.join(", ")}) -> ${type([bucket])} {`,
    ...body.lines.map((line) => `    ${line}`),
    `    return ${scores.id} : ${type([bucket])}`,
    "  }",
    "}",
    "",
  ].join("\n");
}

interface SsaValue {
  readonly id: string;
  readonly shape: readonly number[];
}

/** Emits one line an operation of the function's body. */
class ModuleBody implements DenseOperations<SsaValue> {
  readonly lines: string[] = [];
  readonly arguments: readonly { readonly name: string; readonly shape: readonly number[] }[];
  readonly #bucket: number;
  readonly #precision: string;
  readonly #shapes: ReadonlyMap<string, readonly number[]>;
  #count = 0;

  constructor(spec: ModelSpec, bucket: number, precision: string) {
    this.#bucket = bucket;
    this.#precision = precision;
    this.arguments = [
      { name: "dense", shape: [bucket, spec.denseFeatures] },
      { name: "pooled", shape: [bucket, spec.features.length, spec.embeddingDim] },
      ...denseNetworkTensors(spec),
    ];
    this.#shapes = new Map(this.arguments.map(({ name, shape }) => [name, shape]));
  }

  input(name: "dense" | "pooled"): SsaValue {
    return this.#argument(name);
  }

  linear(x: SsaValue, weight: string, bias?: string): SsaValue {
    const w = this.#argument(weight);
    const shape = [this.#bucket, w.shape[1] as number];
    const precision = `precision = [${this.#precision}, ${this.#precision}]`;
    const product = this.#emit(
      `stablehlo.dot_general ${x.id}, ${w.id}, contracting_dims = [1] x [0], ${precision} : (${type(x.shape)}, ${type(w.shape)}) -> ${type(shape)}`,
      shape,
    );
    if (bias === undefined) return product;
    const b = this.#argument(bias);
    const rows = this.#emit(
      `stablehlo.broadcast_in_dim ${b.id}, dims = [1] : (${type(b.shape)}) -> ${type(shape)}`,
      shape,
    );
    return this.add(product, rows);
  }

  relu(x: SsaValue): SsaValue {
    const zero = this.#emit(`stablehlo.constant dense<0.000000e+00> : ${type(x.shape)}`, x.shape);
    return this.#emit(`stablehlo.maximum ${x.id}, ${zero.id} : ${type(x.shape)}`, x.shape);
  }

  multiply(x: SsaValue, y: SsaValue): SsaValue {
    return this.#emit(`stablehlo.multiply ${x.id}, ${y.id} : ${type(x.shape)}`, x.shape);
  }

  add(x: SsaValue, y: SsaValue): SsaValue {
    return this.#emit(`stablehlo.add ${x.id}, ${y.id} : ${type(x.shape)}`, x.shape);
  }

  flattenBags(x: SsaValue): SsaValue {
    const [rows, features, dim] = x.shape as [number, number, number];
    return this.#reshape(x, [rows, features * dim]);
  }

  concat(x: SsaValue, y: SsaValue): SsaValue {
    const shape = [this.#bucket, (x.shape[1] as number) + (y.shape[1] as number)];
    return this.#emit(
      `stablehlo.concatenate ${x.id}, ${y.id}, dim = 1 : (${type(x.shape)}, ${type(y.shape)}) -> ${type(shape)}`,
      shape,
    );
  }

  score(x: SsaValue): SsaValue {
    const logits = this.#reshape(x, [this.#bucket]);
    return this.#emit(`stablehlo.logistic ${logits.id} : ${type(logits.shape)}`, logits.shape);
  }

  #reshape(x: SsaValue, shape: readonly number[]): SsaValue {
    return this.#emit(`stablehlo.reshape ${x.id} : (${type(x.shape)}) -> ${type(shape)}`, shape);
  }

  #argument(name: string): SsaValue {
    return { id: `%${name}`, shape: this.#shapes.get(name) as readonly number[] };
  }

  #emit(operation: string, shape: readonly number[]): SsaValue {
    const id = `%${this.#count++}`;
    this.lines.push(`${id} = ${operation}`);
    return { id, shape };
  }
}

function type(shape: readonly number[]): string {
  return `tensor<${shape.join("x")}xf32>`;
}
