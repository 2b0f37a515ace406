import { ModelError } from "./model-error.ts";

/** One categorical input and its embedding table. */
export interface FeatureSpec {
  /** Name of the input of a request and of the table's tensor; unique in a model. */
  readonly name: string;
  /** Rows of the table; ids are 0 … vocabularySize - 1. */
  readonly vocabularySize: number;
  /** Ids a bag has in every example. */
  readonly hotSize: number;
  /** How the rows of a bag become one vector. */
  readonly pooling: "sum";
}

/**
 * The dense network, as layer widths:
 *
 * ```text
 * z      = bottomMlp(dense)                      ReLU after every layer           [B, embeddingDim]
 * x0     = concat(z, pooled_0, pooled_1, …)                                       [B, (features + 1) * embeddingDim]
 * x(l+1) = x0 * ((x(l) @ v) @ u + bias) + x(l)   for each of crossLayers          same shape
 * scores = sigmoid(topMlp(x(last)))              ReLU between the layers          [B]
 * ```
 */
export interface DenseNetworkSpec {
  /** Widths of the bottom MLP's layers; the last is embeddingDim. */
  readonly bottomMlp: readonly number[];
  /** Number of low-rank cross layers, 0 for none. */
  readonly crossLayers: number;
  /** Inner width of a cross layer. */
  readonly crossProjection: number;
  /** Widths of the top MLP's layers; the last is 1. */
  readonly topMlp: readonly number[];
}

/** Everything that defines a model but its weights; plain JSON. */
export interface ModelSpec {
  readonly name: string;
  /** Width of an embedding row, in float32 values. */
  readonly embeddingDim: number;
  /** Number of dense (float32) features of an example. */
  readonly denseFeatures: number;
  readonly features: readonly FeatureSpec[];
  readonly denseNetwork: DenseNetworkSpec;
}

/** Largest accepted value of each number: far above real models, and small enough that products stay exact integers. */
const MAX_WIDTH = 1 << 20;
const MAX_VOCABULARY_SIZE = 2 ** 31 - 1;
const MAX_FEATURES = 4096;
const MAX_LAYERS = 256;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * Returns a copy of `value` that holds exactly the fields of a {@link ModelSpec}.
 * @throws {ModelError} `invalid_spec`, with every problem in the message.
 */
export function validateModelSpec(value: unknown): ModelSpec {
  const problems = modelSpecProblems(value);
  if (problems.length > 0) {
    throw new ModelError(
      "invalid_spec",
      `the model spec is not valid:\n${problems.map((line) => `- ${line}`).join("\n")}`,
    );
  }
  const spec = value as ModelSpec;
  return {
    name: spec.name,
    embeddingDim: spec.embeddingDim,
    denseFeatures: spec.denseFeatures,
    features: spec.features.map(({ name, vocabularySize, hotSize, pooling }) => ({
      name,
      vocabularySize,
      hotSize,
      pooling,
    })),
    denseNetwork: {
      bottomMlp: [...spec.denseNetwork.bottomMlp],
      crossLayers: spec.denseNetwork.crossLayers,
      crossProjection: spec.denseNetwork.crossProjection,
      topMlp: [...spec.denseNetwork.topMlp],
    },
  };
}

/** All that is wrong with `value` as a model spec, one line each; empty when it is valid. */
export function modelSpecProblems(value: unknown): string[] {
  const problems: string[] = [];
  const spec = fieldsOf(value, "spec", ["name", "embeddingDim", "denseFeatures", "features", "denseNetwork"], problems);
  if (spec === undefined) return problems;
  checkName(spec.name, "name", problems);
  checkInteger(spec.embeddingDim, "embeddingDim", 1, MAX_WIDTH, problems);
  checkInteger(spec.denseFeatures, "denseFeatures", 1, MAX_WIDTH, problems);
  checkFeatures(spec.features, problems);
  checkDenseNetwork(spec.denseNetwork, spec.embeddingDim, problems);
  return problems;
}

function checkFeatures(value: unknown, problems: string[]): void {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_FEATURES) {
    problems.push(`features: expected a list of 1 to ${MAX_FEATURES} features, got ${show(value)}`);
    return;
  }
  const indexOf = new Map<string, number>();
  for (const [index, element] of value.entries()) {
    const at = `features[${index}]`;
    const feature = fieldsOf(element, at, ["name", "vocabularySize", "hotSize", "pooling"], problems);
    if (feature === undefined) continue;
    checkName(feature.name, `${at}.name`, problems);
    if (typeof feature.name === "string") {
      const first = indexOf.get(feature.name);
      if (first === undefined) indexOf.set(feature.name, index);
      else problems.push(`${at}.name: ${show(feature.name)} is the name of features[${first}] already`);
      // `dense` is the other input of a request; safetensors and this package's padding own names with two underscores.
      if (feature.name === "dense") problems.push(`${at}.name: "dense" is the name of the dense input`);
    }
    checkInteger(feature.vocabularySize, `${at}.vocabularySize`, 1, MAX_VOCABULARY_SIZE, problems);
    checkInteger(feature.hotSize, `${at}.hotSize`, 1, MAX_WIDTH, problems);
    if (feature.pooling !== "sum") problems.push(`${at}.pooling: expected "sum", got ${show(feature.pooling)}`);
  }
}

function checkDenseNetwork(value: unknown, embeddingDim: unknown, problems: string[]): void {
  const network = fieldsOf(value, "denseNetwork", ["bottomMlp", "crossLayers", "crossProjection", "topMlp"], problems);
  if (network === undefined) return;
  const bottom = checkWidths(network.bottomMlp, "denseNetwork.bottomMlp", problems);
  if (bottom !== undefined && Number.isSafeInteger(embeddingDim) && bottom.at(-1) !== embeddingDim) {
    problems.push(
      `denseNetwork.bottomMlp: the last width must be embeddingDim (${show(embeddingDim)}), got ${show(bottom.at(-1))}`,
    );
  }
  checkInteger(network.crossLayers, "denseNetwork.crossLayers", 0, MAX_LAYERS, problems);
  checkInteger(network.crossProjection, "denseNetwork.crossProjection", 1, MAX_WIDTH, problems);
  const top = checkWidths(network.topMlp, "denseNetwork.topMlp", problems);
  if (top !== undefined && top.at(-1) !== 1) {
    problems.push(`denseNetwork.topMlp: the last width must be 1 (the score), got ${show(top.at(-1))}`);
  }
}

function checkWidths(value: unknown, at: string, problems: string[]): readonly unknown[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_LAYERS) {
    problems.push(`${at}: expected a list of 1 to ${MAX_LAYERS} layer widths, got ${show(value)}`);
    return undefined;
  }
  const before = problems.length;
  for (const [index, width] of value.entries()) checkInteger(width, `${at}[${index}]`, 1, MAX_WIDTH, problems);
  return problems.length === before ? value : undefined;
}

function checkName(value: unknown, at: string, problems: string[]): void {
  if (typeof value !== "string" || !NAME.test(value)) {
    problems.push(
      `${at}: expected 1 to 128 letters, digits, ".", "_" or "-", starting with a letter or digit, got ${show(value)}`,
    );
  }
}

function checkInteger(value: unknown, at: string, min: number, max: number, problems: string[]): void {
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
    problems.push(`${at}: expected an integer from ${min} to ${max}, got ${show(value)}`);
  }
}

function fieldsOf<Name extends string>(
  value: unknown,
  at: string,
  names: readonly Name[],
  problems: string[],
): Record<Name, unknown> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    problems.push(`${at}: expected an object with the fields ${names.join(", ")}, got ${show(value)}`);
    return undefined;
  }
  for (const name of Object.keys(value)) {
    // An unknown field would change what the author meant without a word.
    if (!(names as readonly string[]).includes(name)) {
      problems.push(`${at}: unknown field ${show(name)}, expected only ${names.join(", ")}`);
    }
  }
  return value as Record<Name, unknown>;
}

/** A short rendering of any value of JSON for messages. */
function show(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  // NaN and infinities have no JSON, and undefined is a field that is not there.
  const text = typeof value === "number" ? `${value}` : (JSON.stringify(value) ?? "nothing");
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}
